//! Replays of recorded cases; each test takes another file or folder of cases from its environment variable.

mod agent;
mod partial_json;
#[cfg(feature = "providers")]
mod wire;

#[test]
fn agent() {
    agent::replay();
}

#[test]
fn partial_json() {
    partial_json::replay();
}

#[cfg(feature = "providers")]
#[test]
fn wire() {
    wire::replay();
}

#[cfg(feature = "providers")]
#[test]
fn wire_bodies_cut_everywhere() {
    wire::split();
}

#[cfg(feature = "providers")]
#[test]
fn wire_bodies_through_a_proxy() {
    wire::through_a_proxy();
}

#[cfg(feature = "providers")]
#[test]
fn wire_bodies_recorded_and_replayed() {
    wire::recorded();
}
