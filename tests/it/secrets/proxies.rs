//! Proxies that want a password.

use std::time::Duration;

use steerage::{
    AbortSignal, Message, Model, Secret, StreamFn, StreamOptions, StreamRequest,
    provider::{
        HttpClient, HttpOptions, ProviderOptions, ProxyChoice,
        openai_completions::OpenAiCompletions,
    },
    stream::collect,
    testing::server::{Response, Server},
};

use super::*;

/// Asks through a proxy at this URL.
#[track_caller]
fn check(what: &str, url: &str, target: &str) {
    drop(log().lock());
    // A server that is no such proxy waits for more.
    let connect_timeout = Some(Duration::from_millis(300));
    let proxy = ProxyChoice::Url { url: Secret::new(url), except: Vec::new() };
    match HttpClient::new(HttpOptions { proxy, connect_timeout, ..HttpOptions::default() }) {
        Err(error) => shows_no_key(what, &format!("{error} {error:?}")),
        Ok(client) => {
            let provider = ProviderOptions { client, ..ProviderOptions::default() };
            let provider = OpenAiCompletions::new(provider);
            let model = Model::openai_compatible("m", target);
            let mut request = StreamRequest::new(model.clone(), [Message::user("Hi")]);
            request.options = StreamOptions { max_retries: Some(0), ..StreamOptions::default() };
            let mut stream = provider.stream(request, &AbortSignal::never()).unwrap();
            let message = collect(&model, &mut *stream);
            assert!(message.is_failed(), "{what}: {message:?}");
            shows_no_key(what, &format!("{message:?} {provider:?}"));
        }
    }
    logged_no_key();
}

fn with_password(scheme: &str, address: &str) -> String {
    format!("{scheme}://user:{}@{address}", encoded())
}

#[test]
fn a_proxy_that_refuses_does_not_show_its_password() {
    let text = format!("user:{KEY} may not do this, {}", encoded());
    let server = Server::answering(move |_| {
        Response::new(407).header("proxy-authenticate", "Basic").text(text.clone())
    })
    .unwrap();
    let address = server.address().to_string();
    for target in ["http://127.0.0.1:1/v1", "https://127.0.0.1:1/v1"] {
        check("a refusing proxy", &with_password("http", &address), target);
        check("a socks proxy that is none", &with_password("socks5", &address), target);
    }
}

#[test]
fn a_proxy_that_is_not_there_does_not_show_its_password() {
    // The port of a server that is gone.
    let address = Server::start([]).unwrap().address().to_string();
    for scheme in ["http", "https", "socks4", "socks5", "socks5h"] {
        check("no proxy", &with_password(scheme, &address), "http://127.0.0.1:1/v1");
    }
}

#[test]
fn an_address_of_a_proxy_that_is_none_does_not_show_the_password() {
    for url in [
        with_password("ftp", "127.0.0.1:1"),
        with_password("http", ""),
        with_password("http", "[::1"),
        with_password("http", "127.0.0.1:99999"),
        format!("user:{KEY}@127.0.0.1:1"),
        format!("http://user:{KEY}@127.0.0.1:1"),
        KEY.to_owned(),
    ] {
        check("a bad address", &url, "http://127.0.0.1:1/v1");
    }
}
