//! Who the program says that it is: the same on every wire API, to those vendors that ask.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::json;
use steerage::{
    AbortSignal, Model, Models, Secret,
    models::{Environment, ModelsOptions},
    provider::{HttpClient, ProviderOptions, add_vendor_headers},
    stream::{Attribution, Identity, UserAgent, collect},
    testing::server::Request,
};

use super::{Call, good};
use crate::apis;

const HEADERS: [&str; 6] = [
    "user-agent",
    "http-referer",
    "x-openrouter-title",
    "x-openrouter-categories",
    "x-billing-invoke-origin",
    "x-opencode-client",
];

fn identity(categories: &[&str]) -> Identity {
    let categories = categories.iter().map(|it| (*it).to_owned()).collect();
    let (name, url) = ("garden".to_owned(), "https://garden.example".to_owned());
    Identity { user_agent: None, attribution: Some(Attribution { name, url, categories }) }
}

fn shown(request: &Request, names: &[&str]) -> String {
    let version = concat!("steerage/", env!("CARGO_PKG_VERSION"));
    let headers =
        names.iter().filter_map(|name| Some(format!("{name}: {}", request.header(name)?)));
    headers.collect::<Vec<_>>().join("\n").replace(version, "VERSION")
}

/// What is sent about the program to a provider, whatever the API.
#[track_caller]
fn check(provider: &str, categories: &[&str], expected: Expect) {
    for api in apis::ALL {
        let mut call = Call::new(api, [good(api)]);
        provider.clone_into(&mut Arc::make_mut(&mut call.request.model).provider);
        call.request.options.identity = Some(identity(categories));
        call.answer(&AbortSignal::never());
        expected.assert_eq(&shown(&call.server.requests()[0], &HEADERS));
    }
}

#[test]
fn each_vendor_that_lists_programs_is_told_in_its_own_headers() {
    check(
        "openrouter",
        &[],
        expect![[r#"
            user-agent: VERSION
            http-referer: https://garden.example
            x-openrouter-title: garden"#]],
    );
    check(
        "openrouter",
        &["game", "creative"],
        expect![[r#"
            user-agent: VERSION
            http-referer: https://garden.example
            x-openrouter-title: garden
            x-openrouter-categories: game,creative"#]],
    );
    check(
        "nvidia",
        &["game"],
        expect![[r#"
            user-agent: VERSION
            x-billing-invoke-origin: Garden"#]],
    );
    for provider in ["opencode", "opencode-go"] {
        check(
            provider,
            &["game"],
            expect![[r#"
                user-agent: VERSION
                x-opencode-client: garden"#]],
        );
    }
    for provider in ["anthropic", "openai", "google", "mistral", "radius", "my-own"] {
        check(provider, &["game"], expect!["user-agent: VERSION"]);
    }
}

/// Vendors are known by their addresses too, and nobody else by a part of one.
#[test]
fn a_vendor_is_known_by_its_host() {
    let hosts = [
        ("https://openrouter.ai/api/v1", "x-openrouter-title"),
        ("https://eu.openrouter.ai/api/v1", "x-openrouter-title"),
        ("https://integrate.api.nvidia.com/v1", "x-billing-invoke-origin"),
        ("https://opencode.ai/inference/v1", "x-opencode-client"),
        ("https://notopenrouter.ai/v1", ""),
        ("https://gateway.example/openrouter.ai/v1", ""),
        ("https://openrouter.ai.example/v1", ""),
    ];
    for (url, expected) in hosts {
        let api = "openai-completions";
        let mut call = Call::new(api, [good(api)]);
        let server = call.server.url();
        let client = HttpClient::shared().rewriting(move |url| {
            let path = url.split_once("://").unwrap().1.split_once('/').unwrap().1;
            format!("{server}/{path}")
        });
        call.stream =
            apis::stream_fn(api, ProviderOptions { client, ..ProviderOptions::default() });
        url.clone_into(&mut Arc::make_mut(&mut call.request.model).base_url);
        call.request.options.identity = Some(identity(&[]));
        call.answer(&AbortSignal::never());
        let request = &call.server.requests()[0];
        let told: Vec<_> =
            HEADERS[2..].iter().filter(|name| request.header(name).is_some()).collect();
        assert_eq!(
            told,
            [expected].iter().filter(|it| !it.is_empty()).collect::<Vec<_>>(),
            "{url}"
        );
    }
}

/// Of all that is said in headers this counts least.
#[test]
fn headers_of_the_model_and_of_the_request_win() {
    for api in apis::ALL {
        let mut call = Call::new(api, [good(api)]);
        let model = Arc::make_mut(&mut call.request.model);
        "openrouter".clone_into(&mut model.provider);
        model.headers = json!({"http-referer": "of the model", "User-Agent": "model/1"})
            .as_object()
            .unwrap()
            .clone();
        call.request.options.identity = Some(identity(&["game"]));
        call.request.options.headers = vec![
            ("x-openrouter-title".to_owned(), Some("of the request".to_owned())),
            ("X-OpenRouter-Categories".to_owned(), None),
        ];
        call.answer(&AbortSignal::never());
        let request = &call.server.requests()[0];
        let said = shown(request, &HEADERS);
        assert_eq!(
            said,
            "user-agent: model/1\nhttp-referer: of the model\nx-openrouter-title: of the request",
            "{api}"
        );
    }
}

#[test]
fn the_user_agent_has_four_forms_everywhere() {
    let (version, os, arch) = (
        concat!("steerage/", env!("CARGO_PKG_VERSION")),
        std::env::consts::OS,
        std::env::consts::ARCH,
    );
    let forms = [
        (None, version.to_owned()),
        (Some(UserAgent::Detailed), format!("{version} ({os}; {arch})")),
        (Some(UserAgent::Short), "steerage".to_owned()),
        (Some(UserAgent::Custom("garden/2".to_owned())), "garden/2".to_owned()),
    ];
    for (api, (user_agent, expected)) in
        apis::with_proxy().flat_map(|api| forms.clone().map(|it| (api, it)))
    {
        let mut call = Call::new(api, [good(api)]);
        call.request.options.identity = Some(Identity { user_agent, attribution: None });
        call.answer(&AbortSignal::never());
        assert_eq!(call.server.requests()[0].header("user-agent"), Some(&*expected), "{api}");
    }
}

/// The proxy is no vendor.
#[test]
fn the_proxy_is_not_told_what_is_for_vendors() {
    let mut call = Call::new("proxy", [good("proxy")]);
    "openrouter".clone_into(&mut Arc::make_mut(&mut call.request.model).provider);
    call.request.options.identity = Some(identity(&["game"]));
    call.answer(&AbortSignal::never());
    expect!["user-agent: VERSION"].assert_eq(&shown(&call.server.requests()[0], &HEADERS));
}

#[test]
fn opencode_is_told_the_session() {
    for (provider, expected) in
        [("opencode", Some("s1")), ("opencode-go", Some("s1")), ("openrouter", None)]
    {
        for api in apis::ALL {
            let mut call = Call::new(api, [good(api)]);
            provider.clone_into(&mut Arc::make_mut(&mut call.request.model).provider);
            call.request.options.session_id = Some("s1".to_owned());
            add_vendor_headers(&mut call.request);
            call.answer(&AbortSignal::never());
            let told = call.server.requests()[0].header("x-opencode-session").map(str::to_owned);
            assert_eq!(told.as_deref(), expected, "{provider} {api}");
        }
    }
}

/// Said once for all requests, where a request does not say it itself.
#[test]
fn the_registry_says_it_for_every_request() {
    let api = "openai-completions";
    let call = Call::new(api, [good(api), good(api)]);
    let models = Models::with_options(ModelsOptions {
        identity: Some(identity(&["game"])),
        environment: Environment::of([("NOTHING", "")]),
        ..ModelsOptions::default()
    });
    let mut request = call.request.clone();
    "opencode".clone_into(&mut Arc::make_mut(&mut request.model).provider);
    request.options.api_key = Some(Secret::new("sk-of-the-program"));
    request.options.session_id = Some("s1".to_owned());
    let names = ["x-opencode-client", "x-opencode-session"];
    let model: Arc<Model> = request.model.clone();
    for own in [None, Some("orchard")] {
        let mut request = request.clone();
        request.options.identity = own.map(|name| {
            let attribution = Attribution { name: name.to_owned(), ..Attribution::default() };
            Identity { user_agent: None, attribution: Some(attribution) }
        });
        let mut stream =
            steerage::StreamFn::stream(&models, request, &AbortSignal::never()).unwrap();
        assert_eq!(collect(&model, &mut *stream).error_message, None);
    }
    let told: Vec<_> = call.server.requests().iter().map(|it| shown(it, &names)).collect();
    assert_eq!(
        told,
        [
            "x-opencode-client: garden\nx-opencode-session: s1",
            "x-opencode-client: orchard\nx-opencode-session: s1",
        ]
    );
}
