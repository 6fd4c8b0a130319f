//! Nothing is left behind: thousands of scripts in a process of their own, whose threads and memory are counted.

use std::{
    env, fs,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use steerage::{
    AbortSignal,
    codemode::{Limits, Sandbox, ScriptErrorKind},
};

use super::Host;

/// Set in the process that runs the scripts; how many it runs.
const CHILD: &str = "STEERAGE_LEAK_CHILD";
/// How many scripts to run; the CI script asks for ten thousand.
const RUNS: &str = "STEERAGE_LEAK_RUNS";
/// Memory that allocators keep for later.
const SLACK: usize = 48 << 20;

#[test]
fn thousands_of_scripts_leave_no_thread_and_no_memory() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let runs = env::var(RUNS).unwrap_or_else(|_| "600".to_owned());
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "codemode::leaks::in_a_process_of_its_own", "--nocapture"]);
    let output = child.env(CHILD, runs).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("nothing was left behind"), "{text}");
}

#[test]
fn in_a_process_of_its_own() {
    let Ok(runs) = env::var(CHILD) else { return };
    let runs: usize = runs.parse().unwrap();
    let host = Arc::new(Host::new());
    let sandbox = Sandbox::default();
    let short = Sandbox::new(Limits { time: Some(Duration::from_millis(20)), ..Limits::default() });
    let small = Sandbox::new(Limits { memory: 2 << 20, ..Limits::default() });
    let batch = |count: usize| {
        for number in 0..count {
            let run = |sandbox: &Sandbox, script: &str| {
                sandbox.execute(script, host.clone(), &AbortSignal::never()).result
            };
            match number % 100 {
                7 => {
                    let error = run(&short, "await null; while (true) {}").unwrap_err();
                    assert_eq!(error.kind, ScriptErrorKind::Timeout);
                }
                17 => {
                    let error =
                        run(&small, "const all = []; while (true) all.push({all})").unwrap_err();
                    assert!(error.message.contains("out of memory"), "{error}");
                }
                27 => assert!(run(&sandbox, "tools.echo(); throw new Error('x')").is_err()),
                37 => assert!(run(&sandbox, "return 1 +;").is_err()),
                47 => assert!(run(&sandbox, "await new Promise(() => {})").is_err()),
                _ => {
                    let script = "return Promise.all([1, 2].map(n => tools.echo({n})))";
                    assert_eq!(run(&sandbox, script), Ok(Some(json!([{"n": 1}, {"n": 2}]))));
                }
            }
        }
    };
    batch(100);
    let before = memory();
    batch(runs);
    let grown = memory().saturating_sub(before);
    assert!(grown < SLACK, "{runs} scripts left {grown} bytes");
    // The threads of the last scripts may just be ending.
    let late = Instant::now() + Duration::from_mins(1);
    while threads("codemode") > 0 {
        assert!(Instant::now() < late, "{} threads are left", threads("codemode"));
        AbortSignal::never().wait_timeout(Duration::from_millis(10));
    }
    println!("nothing was left behind: {grown} bytes more after {runs} scripts");
}

/// The threads of this process whose names begin so.
fn threads(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|it| it.starts_with(name) && !it.starts_with("codemode::")).count()
}

/// The memory of this process that is in use, in bytes.
fn memory() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
