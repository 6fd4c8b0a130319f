//! A key never shows: not in an error, a message, a log line or the `Debug` of anything, whatever fails.

use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::subscriber;

mod debug;
mod failures;
mod proxies;

/// A key as vendors make them, with signs that other notations write differently.
const KEY: &str = "sk+marked/8f3c1d7e5a9b2046==";

/// What no text may hold: enough of the key that nobody wrote it by chance.
const TRACE: &str = "8f3c1d7e";

/// Fails if `text` shows the key or a good part of it.
#[track_caller]
fn shows_no_key(what: &str, text: &str) {
    assert!(!text.contains(TRACE), "{what} shows the key: {text}");
}

/// Fails if a log line has shown the key so far.
#[track_caller]
fn logged_no_key() {
    let lines = log().lock();
    assert!(lines.is_empty(), "a log line shows the key: {lines:#?}");
}

/// The lines with the key in them, of all threads of the process since the first call.
fn log() -> &'static Mutex<Vec<String>> {
    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        subscriber::install();
        log::set_logger(&Everything).expect("no other logger");
        log::set_max_level(log::LevelFilter::Info);
    });
    &LINES
}

/// Lines that a test wrote to see whether they arrive.
static PROBES: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub(crate) fn keep(line: &str) {
    if line.contains(TRACE) {
        log().lock().push(line.to_owned());
    }
    if line.contains("probe") {
        PROBES.lock().push(line.to_owned());
    }
}

/// Takes every line of `log`; what `tracing` has is taken by the subscriber of all tests.
struct Everything;

impl log::Log for Everything {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        keep(&format!("{}: {}", record.target(), record.args()));
    }

    fn flush(&self) {}
}

/// Otherwise no line would prove anything.
#[test]
fn every_log_line_is_seen() {
    drop(log().lock());
    tracing::trace!(field = "value", "probe");
    tracing::trace_span!("probe of a span", field = 1).in_scope(|| ());
    log::info!("probe {}", 2);
    let probes = PROBES.lock().join("\n");
    for part in ["field=\"value\"", "field=1", "probe 2"] {
        assert!(probes.contains(part), "{probes}");
    }
}

/// The key as it stands in a URL.
fn encoded() -> String {
    KEY.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}
