//! A server that holds the keys, for programs that use `steerage::proxy::stream_proxy`.
//!
//! ```sh
//! PROXY_TOKEN=some-long-secret cargo run --example proxy_server -- 8700
//! ```
//!
//! It answers every model whose provider has a key in the environment, and `builtin/builtin-1`, which needs none. Put it
//! behind something that speaks TLS, and give each user a token of their own before you give it to others: here all who know
//! the one token share one account at the vendors.

use std::{env, process::ExitCode, sync::Arc, time::Duration};

use steerage::{AbortSignal, Builtin, Error, ErrorKind, Models, Secret, models::Provider};

use crate::server::{Server, Setup};

#[path = "proxy_server/server.rs"]
mod server;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Error> {
    let configuration = |text: String| Error::new(ErrorKind::Configuration, text);
    let port = env::args().nth(1).unwrap_or_else(|| "0".to_owned());
    let port: u16 = port.parse().map_err(|_| configuration(format!("`{port}` is no port")))?;
    let token =
        env::var("PROXY_TOKEN").ok().filter(|token| !token.is_empty()).ok_or_else(|| {
            configuration("set PROXY_TOKEN to the token that programs shall send".to_owned())
        })?;
    let models = Models::from_env();
    models.add(Provider {
        models: vec![Builtin::model()],
        stream: Some(Builtin::new().into()),
        ..Provider::new("builtin", "")
    });
    let known = models.clone();
    let setup = Setup {
        token: Secret::new(token),
        model: Box::new(move |provider, id| known.get(provider, id)),
        stream: Arc::new(models),
        keep_alive: Duration::from_secs(15),
    };
    let server = Server::start(("127.0.0.1", port), setup)
        .map_err(|error| configuration(format!("port {port} cannot be listened on: {error}")))?;
    println!("listening on http://{}", server.address());
    // Until the process is ended from outside.
    AbortSignal::never().wait();
    Ok(())
}
