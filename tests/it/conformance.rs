//! Replays of recorded cases; each test takes another file or folder of cases from its environment variable.

mod agent;
mod partial_json;

#[test]
fn agent() {
    agent::replay();
}

#[test]
fn partial_json() {
    partial_json::replay();
}
