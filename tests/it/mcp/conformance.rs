//! The official conformance suite, where it is installed; see [`official`](super::official).

use std::{fs, process::Command};

use super::official::{node, packages};
use crate::chat::example;

/// The scenarios that the file of expected failures names.
fn expected() -> Vec<String> {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mcp/expected-failures.yml");
    let text = fs::read_to_string(place).unwrap();
    text.lines().filter_map(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect()
}

/// Runs the suite and returns what it printed.
fn run(folder: &std::path::Path, arguments: &[&str]) -> String {
    let node = node(folder);
    let path = std::path::Path::new(&node).parent().unwrap().display().to_string();
    let suite = folder.join("node/node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let output = Command::new(&node)
        .arg(suite)
        .arg("client")
        .args(["--command", &example("mcp_conformance").display().to_string()])
        .args(arguments)
        .env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap_or_default()))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn the_conformance_suite_finds_what_is_expected() {
    let Some(folder) = packages("the_conformance_suite_finds_what_is_expected") else { return };
    let shown = run(&folder, &["--suite", "all"]);
    let named = |mark: &str| -> Vec<String> {
        let line = |line: &str| Some(line.trim().strip_prefix(mark)?.split(':').next()?.to_owned());
        shown.lines().filter_map(line).collect()
    };
    let (passed, mut failed) = (named("✓ "), named("✗ "));
    // It measures time, so it is run on its own.
    failed.retain(|name| name != "sse-retry");
    failed.sort();
    let mut expected = expected();
    expected.sort();
    assert_eq!(failed, expected, "{shown}");
    assert!(passed.len() >= 22, "{shown}");
}

#[test]
fn a_broken_stream_is_taken_up_again_when_the_server_says() {
    let Some(folder) = packages("a_broken_stream_is_taken_up_again_when_the_server_says") else {
        return;
    };
    // It wants the next try within 250 ms, which a machine at its limits does not always manage.
    let passes = |_| run(&folder, &["--scenario", "sse-retry"]).contains("OVERALL: PASSED");
    assert!((0..5).any(passes));
}
