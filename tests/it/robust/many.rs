//! Many agents leave nothing behind: no thread, no file descriptor.
#![cfg(target_os = "linux")]

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crossbeam_channel::{Sender, bounded};
use serde_json::json;
use steerage::{
    Agent, Run,
    testing::{Answer, Scripted},
};

use crate::robust::{BOUND, check_calls, options, outcome, process::in_own_process, tool};

/// What a process holds that can leak: threads and file descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holdings {
    threads: usize,
    files: usize,
}

impl Holdings {
    fn now() -> Holdings {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
        let files = fs::read_dir("/proc/self/fd").unwrap().count();
        Holdings { threads: threads.trim().parse().unwrap(), files }
    }

    /// Waits until no more is held than before. Threads end on their own, soon after what they served.
    #[track_caller]
    fn wait_for(self) {
        let began = Instant::now();
        loop {
            let now = Holdings::now();
            if now.threads <= self.threads && now.files <= self.files {
                return;
            }
            assert!(began.elapsed() < BOUND, "{now:?} are left of {self:?}: {:?}", thread_names());
            thread::yield_now();
        }
    }
}

fn thread_names() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(|task| name(task.ok()?)).collect()
}

/// An agent with everything that has a thread: a listener, tools, a deadline, a time limit, an agent in a tool.
fn agent(ready: Option<Sender<()>>, gate: Option<crossbeam_channel::Receiver<()>>) -> Agent {
    let batch = Answer::new()
        .tool_call("a", json!({}))
        .tool_call("a", json!({}))
        .tool_call("sub", json!({}));
    let scripted = Scripted::new([batch, Answer::from("Done.")]);
    let quick = tool("a", |_| Ok("done")).time_limit(Duration::from_hours(1));
    let sub = tool("sub", move |_| {
        if let (Some(ready), Some(gate)) = (&ready, &gate) {
            ready.send(())?;
            let _ = gate.recv_timeout(BOUND);
        }
        let scripted = Scripted::new(["Below."]);
        let agent = Agent::new(scripted.model(), options(&scripted, Vec::new()))?;
        Ok(agent.prompt("Go")?.wait()?.text)
    });
    let mut options = options(&scripted, vec![quick, sub]);
    options.deadline = Some(Duration::from_hours(1));
    let agent = Agent::new(scripted.model(), options).unwrap();
    agent.subscribe(|_, _| Ok(())).keep();
    agent
}

#[track_caller]
fn check(agent: &Agent, run: &Run) {
    assert_eq!(outcome(run).text, "Done.");
    check_calls(&agent.messages());
}

#[track_caller]
fn check_in_own_process(test: &str, body: fn()) {
    if let Some((status, said)) = in_own_process(&format!("robust::many::{test}"), body) {
        assert!(status.success(), "{said}");
    }
}

#[test]
fn a_thousand_agents_one_after_another_leave_nothing_behind() {
    check_in_own_process("a_thousand_agents_one_after_another_leave_nothing_behind", || {
        let before = Holdings::now();
        for _ in 0..1000 {
            let agent = agent(None, None);
            let events = agent.events();
            let run = agent.prompt("Go").unwrap();
            check(&agent, &run);
            drop(agent);
            assert_eq!(events.last().map(|event| event.type_name()), Some("agent_end"));
        }
        before.wait_for();
    });
}

#[test]
fn a_thousand_agents_dropped_in_mid_run_leave_nothing_behind() {
    check_in_own_process("a_thousand_agents_dropped_in_mid_run_leave_nothing_behind", || {
        let before = Holdings::now();
        for round in 0..1000 {
            let agent = agent(None, None);
            let events = agent.events();
            let run = agent.prompt("Go").unwrap();
            for _ in 0..round % 40 {
                if events.next_timeout(BOUND).unwrap().type_name() == "agent_end" {
                    break;
                }
            }
            drop(agent);
            let _ = outcome(&run);
        }
        before.wait_for();
    });
}

#[test]
fn sixty_four_agents_at_once_leave_nothing_behind() {
    check_in_own_process("sixty_four_agents_at_once_leave_nothing_behind", || {
        const COUNT: usize = 64;
        let before = Holdings::now();
        let (ready, is_ready) = bounded(COUNT);
        let (open, gate) = bounded::<()>(0);
        let runs: Vec<_> = (0..COUNT)
            .map(|_| {
                let agent = agent(Some(ready.clone()), Some(gate.clone()));
                let run = agent.prompt("Go").unwrap();
                (agent, run)
            })
            .collect();
        // All of them are in the middle of a tool now.
        for _ in 0..COUNT {
            is_ready.recv_timeout(BOUND).unwrap();
        }
        drop(open);
        for (agent, run) in &runs {
            check(agent, run);
        }
        drop(runs);
        before.wait_for();
    });
}
