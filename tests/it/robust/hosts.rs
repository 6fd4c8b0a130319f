//! Runs on threads that belong to others: tasks of tokio, jobs of rayon, a pool of the host's, scoped threads, unwinding ones.

use std::{sync::Arc, thread};

use crossbeam_channel::{bounded, unbounded};
use serde_json::json;
use steerage::{
    Agent, AgentEvent,
    testing::{Answer, Scripted},
};

use crate::robust::{BOUND, agent, check_calls, outcome, process::spawn, tool};

fn asks() -> Agent {
    let batch = Answer::new().tool_call("a", json!({})).tool_call("sub", json!({}));
    let scripted = Scripted::new([batch, Answer::from("Done.")]);
    let sub = tool("sub", |_| {
        Ok(agent(&Scripted::new(["Below."]), Vec::new()).prompt("Go")?.wait()?.text)
    });
    agent(&scripted, vec![tool("a", |_| Ok("done")), sub])
}

/// A whole life on the calling thread: made, observed, listened to, prompted, waited for, dropped.
fn live() {
    let agent = asks();
    let events = agent.events();
    let (told, tells) = unbounded();
    let subscription = agent.subscribe(move |event, _| {
        told.send(event.type_name())?;
        Ok(())
    });
    let run = agent.prompt("Go").unwrap();
    assert_eq!(outcome(&run).text, "Done.");
    agent.wait_for_idle().unwrap();
    check_calls(&agent.messages());
    drop(subscription);
    drop(agent);
    let observed: Vec<&str> = events
        .into_iter()
        .filter(|event| !matches!(event, AgentEvent::MessageUpdate { .. }))
        .map(|event| event.type_name())
        .collect();
    let mut listened: Vec<&str> = tells.into_iter().collect();
    listened.retain(|name| *name != "message_update");
    assert_eq!(observed, listened);
}

#[test]
fn in_a_task_of_a_runtime_with_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        live();
        tokio::spawn(async { live() }).await.unwrap();
    });
}

#[test]
fn in_tasks_of_a_runtime_with_several_threads_all_of_them_blocked() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(async { live() })).collect();
        let blocking: Vec<_> = (0..4).map(|_| tokio::task::spawn_blocking(live)).collect();
        for task in tasks.into_iter().chain(blocking) {
            task.await.unwrap();
        }
    });
}

#[test]
fn a_tool_may_use_a_runtime_and_a_runtime_may_end_with_an_agent_in_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let handle = runtime.handle().clone();
    let scripted = Scripted::new([Answer::new().tool_call("a", json!({})), Answer::from("Done.")]);
    let tool = tool("a", move |_| Ok(handle.block_on(async { "awaited" })));
    let agent = agent(&scripted, vec![tool]);
    let inside = agent.clone();
    let ended = runtime.block_on(async move { outcome(&inside.prompt("Go").unwrap()) });
    assert_eq!(ended.text, "Done.");
    let owner = runtime.spawn(async move {
        let _agent = agent;
        std::future::pending::<()>().await;
    });
    drop(runtime);
    assert!(owner.is_finished());
}

#[test]
fn in_jobs_of_rayon_all_of_its_threads_blocked() {
    rayon::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|_| live());
        }
    });
    rayon::join(live, live);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    one.install(live);
}

#[test]
fn in_a_pool_of_the_hosts() {
    let (jobs, work) = unbounded::<fn()>();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let work = work.clone();
            spawn(move || work.iter().for_each(|job| job()))
        })
        .collect();
    for _ in 0..16 {
        jobs.send(live).unwrap();
    }
    drop(jobs);
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
#[allow(clippy::disallowed_methods)]
fn in_scoped_threads_that_share_an_agent() {
    let (open, gate) = bounded::<()>(0);
    let scripted = Scripted::new([
        Answer::new().tool_call("a", json!({})),
        Answer::from("First."),
        Answer::from("Second."),
    ]);
    let waits = tool("a", move |_| {
        let _ = gate.recv_timeout(BOUND);
        Ok("done")
    });
    let agent = agent(&scripted, vec![waits]);
    let run = agent.prompt("Go").unwrap();
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..3).map(|_| scope.spawn(|| outcome(&run).text)).collect();
        let idle = scope.spawn(|| agent.wait_for_idle());
        scope.spawn(|| {
            let _ = agent.follow_up("And then?");
            drop(open);
        });
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), "Second.");
        }
        idle.join().unwrap().unwrap();
    });
}

/// Lives while the thread unwinds.
struct LivesInDrop;

impl Drop for LivesInDrop {
    fn drop(&mut self) {
        assert!(thread::panicking());
        live();
    }
}

#[test]
fn on_a_thread_that_unwinds() {
    let unwound = spawn(|| {
        let _lives = LivesInDrop;
        std::panic::resume_unwind(Box::new("over"));
    });
    assert!(unwound.join().is_err());
}

#[test]
fn a_shared_handle_may_be_a_static_of_the_host() {
    static AGENT: std::sync::LazyLock<Arc<Agent>> = std::sync::LazyLock::new(|| Arc::new(asks()));
    assert_eq!(outcome(&AGENT.prompt("Go").unwrap()).text, "Done.");
}
