//! Tests that need a process of their own: the test binary runs the same test again.

use std::{
    env,
    io::Read,
    process::{Command, ExitStatus, Stdio},
};

use crossbeam_channel::bounded;

use crate::robust::BOUND;

const IN_CHILD: &str = "STEERAGE_TEST_PROCESS";

/// Runs `body` in a process of its own and returns how that ended, with what it said; in that process it does not return.
/// `test` is the calling test's path.
pub(super) fn in_own_process(test: &str, body: fn()) -> Option<(ExitStatus, String)> {
    if env::var(IN_CHILD).is_ok_and(|name| name == test) {
        body();
        return None;
    }
    let program = env::current_exe().unwrap();
    let mut child = Command::new(program)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(IN_CHILD, test)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut output, mut errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (closed, is_closed) = bounded(1);
    spawn(move || {
        let mut said = String::new();
        let _ = output.read_to_string(&mut said);
        let _ = errors.read_to_string(&mut said);
        let _ = closed.send(said);
    });
    let Ok(said) = is_closed.recv_timeout(BOUND) else {
        let _ = child.kill();
        panic!("{test} hangs in its own process");
    };
    Some((child.wait().unwrap(), said))
}

/// A thread of the host's.
#[allow(clippy::disallowed_methods)]
pub(super) fn spawn<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(body)
}
