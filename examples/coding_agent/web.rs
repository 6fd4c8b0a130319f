//! A tool that fetches pages, with limits.

use std::{io::Read, sync::mpsc::channel, thread, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use steerage::{Tool, ToolContext, ToolError, ToolHints};

const LONGEST: Duration = Duration::from_secs(20);
const MOST_BYTES: u64 = 256 << 10;
const MOST_REDIRECTS: u32 = 5;

#[derive(Deserialize, JsonSchema)]
struct FetchUrl {
    /// An address that begins with http:// or https://
    url: String,
}

pub(crate) fn tool() -> Tool {
    // It reads, but what it is asked for tells the server something: no read-only hint, so it is asked for.
    Tool::new("fetch_url", "Fetches a page from the web as text", fetch).hints(ToolHints {
        open_world: Some(true),
        idempotent: Some(true),
        ..ToolHints::default()
    })
}

#[allow(clippy::needless_pass_by_value)]
fn fetch(it: FetchUrl, context: &ToolContext) -> Result<String, ToolError> {
    if !it.url.starts_with("https://") && !it.url.starts_with("http://") {
        return Err(format!("{} is no address of the web", it.url).into());
    }
    let (sender, result) = channel();
    let of_abort = sender.clone();
    let _on_abort = context.signal().on_abort(move || {
        let _ = of_abort.send(Err("interrupted".to_owned()));
    });
    // A thread of its own, which an abort does not wait for; it ends within the limit.
    let work = move || drop(sender.send(get(&it.url)));
    thread::Builder::new().name("fetch-url".to_owned()).spawn(work)?;
    Ok(result.recv()??)
}

fn get(url: &str) -> Result<String, String> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(LONGEST))
        .max_redirects(MOST_REDIRECTS)
        .build();
    let response = ureq::Agent::new_with_config(config).get(url).call();
    let response = response.map_err(|error| format!("{url}: {error}"))?;
    let mut bytes = Vec::new();
    let mut body = response.into_body().into_reader().take(MOST_BYTES);
    body.read_to_end(&mut bytes).map_err(|error| format!("{url}: {error}"))?;
    let is_cut = bytes.len() as u64 == MOST_BYTES;
    let text = String::from_utf8_lossy(&bytes);
    Ok(if is_cut { format!("{text}\n[cut after {MOST_BYTES} bytes]") } else { text.into_owned() })
}
