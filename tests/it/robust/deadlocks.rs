//! Waiting for a run on a thread that the run waits for is refused at once; everything else that waits may wait.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use serde_json::json;
use steerage::{
    Agent, AgentEvent, AgentOptions, ErrorKind, Run, ToolContext, ToolPool, WeakAgent,
    testing::{Answer, Scripted},
};

use crate::robust::{BOUND, agent, options, outcome, tool};

/// What every way to wait for the run gives on this thread.
fn ways_to_wait(agent: &Agent, run: &Run) -> Vec<Option<ErrorKind>> {
    vec![
        agent.wait_for_idle().err().map(|error| error.kind()),
        agent.wait_for_idle_timeout(BOUND).err().map(|error| error.kind()),
        run.wait().err().map(|error| error.kind()),
        run.wait_timeout(BOUND).and_then(Result::err).map(|error| error.kind()),
        run.outcome().err().map(|error| error.kind()),
    ]
}

/// Hands a run to code that began before the run was known, and takes what that code saw.
#[derive(Clone)]
struct Waiter {
    agent: Arc<OnceLock<WeakAgent>>,
    runs: (Sender<Run>, Receiver<Run>),
    seen: Arc<Mutex<Vec<Vec<Option<ErrorKind>>>>>,
}

impl Waiter {
    fn new() -> Waiter {
        Waiter { agent: Arc::default(), runs: unbounded(), seen: Arc::default() }
    }

    /// Waits in every way for the agent's run.
    fn wait(&self) {
        let run = self.runs.1.recv_timeout(BOUND).unwrap();
        let _ = self.runs.0.send(run.clone());
        let agent = self.agent.get().and_then(WeakAgent::upgrade).unwrap();
        self.seen.lock().unwrap().push(ways_to_wait(&agent, &run));
    }

    #[track_caller]
    fn check(&self, agent: &Agent) {
        let _ = self.agent.set(agent.downgrade());
        let run = agent.prompt("Go").unwrap();
        self.runs.0.send(run.clone()).unwrap();
        outcome(&run);
        let seen = self.seen.lock().unwrap();
        assert!(!seen.is_empty());
        for kinds in seen.iter() {
            assert_eq!(*kinds, [Some(ErrorKind::WouldDeadlock); 5]);
        }
    }
}

fn one_call() -> Scripted {
    Scripted::new([Answer::new().tool_call("a", json!({})), Answer::from("Done.")])
}

#[test]
fn waiting_in_a_listener_is_refused_at_every_event() {
    let waiter = Waiter::new();
    let agent = agent(&one_call(), vec![tool("a", |_| Ok("done"))]);
    let listener = waiter.clone();
    let _subscription = agent.subscribe(move |_, _| {
        listener.wait();
        Ok(())
    });
    waiter.check(&agent);
}

#[test]
fn waiting_in_a_tool_is_refused() {
    let waiter = Waiter::new();
    let tool = {
        let waiter = waiter.clone();
        tool("a", move |_| {
            waiter.wait();
            Ok("done")
        })
    };
    waiter.check(&agent(&one_call(), vec![tool]));
}

type Set = fn(&mut AgentOptions, Waiter);

#[track_caller]
fn check_hooks(hooks: &[Set]) {
    for set in hooks {
        let (waiter, scripted) = (Waiter::new(), one_call());
        let mut options = options(&scripted, vec![tool("a", |_| Ok("done"))]);
        set(&mut options, waiter.clone());
        waiter.check(&Agent::new(scripted.model(), options).unwrap());
    }
}

#[test]
fn waiting_in_a_hook_of_a_call_or_a_turn_is_refused() {
    check_hooks(&[
        |it, waiter| {
            it.hooks.before_tool_call = Some(Arc::new(move |_, _| {
                waiter.wait();
                Ok(steerage::ToolDecision::Allow)
            }));
        },
        |it, waiter| {
            it.hooks.after_tool_call = Some(Arc::new(move |_, _| {
                waiter.wait();
                Ok(None)
            }));
        },
        |it, waiter| {
            it.hooks.finish_turn = Some(Arc::new(move |_, _| {
                waiter.wait();
                Ok(steerage::TurnDecision::Proceed)
            }));
        },
    ]);
}

#[test]
fn waiting_in_a_hook_of_a_request_is_refused() {
    check_hooks(&[
        |it, waiter| {
            it.hooks.prepare_request = Some(Arc::new(move |_, _| {
                waiter.wait();
                Ok(None)
            }));
        },
        |it, waiter| {
            it.hooks.prepare_next_turn = Some(Arc::new(move |_, _| {
                waiter.wait();
                Ok(None)
            }));
        },
        |it, waiter| {
            it.hooks.transform_context = Some(Arc::new(move |messages, _| {
                waiter.wait();
                Ok(messages)
            }));
        },
        |it, waiter| {
            it.hooks.convert_to_llm = Some(Arc::new(move |messages, _| {
                waiter.wait();
                Ok(messages)
            }));
        },
        |it, waiter| {
            it.hooks.get_api_key = Some(Arc::new(move |_, _| {
                waiter.wait();
                Ok(None)
            }));
        },
        |it, waiter| {
            it.request.hooks.on_response = Some(Arc::new(move |_, _| {
                waiter.wait();
                Ok(())
            }));
        },
    ]);
}

#[test]
fn waiting_in_the_stream_function_or_a_wake_callback_is_refused() {
    let waiter = Waiter::new();
    let scripted = {
        let waiter = waiter.clone();
        Scripted::from_fn(move |_, _| {
            waiter.wait();
            "Done."
        })
    };
    waiter.check(&agent(&scripted, Vec::new()));

    let waiter = Waiter::new();
    let agent = agent(&one_call(), vec![tool("a", |_| Ok("done"))]);
    let woken = waiter.clone();
    let _events = agent.events().on_wake(move || woken.wait());
    waiter.check(&agent);
}

#[test]
fn waiting_in_a_tool_of_an_agent_in_a_tool_is_refused() {
    let waiter = Waiter::new();
    let inner = {
        let waiter = waiter.clone();
        tool("a", move |_| {
            waiter.wait();
            Ok("done")
        })
    };
    let outer =
        tool("a", move |_| Ok(agent(&one_call(), vec![inner.clone()]).prompt("Go")?.wait()?.text));
    waiter.check(&agent(&one_call(), vec![outer]));
}

#[test]
fn waiting_in_a_nested_call_is_refused() {
    let waiter = Waiter::new();
    let inner = {
        let waiter = waiter.clone();
        tool("inner", move |_| {
            waiter.wait();
            Ok("done")
        })
    };
    let outer = tool("a", |context: &ToolContext| {
        Ok(context.run_tool("inner", serde_json::Map::new()).result)
    });
    waiter.check(&agent(&one_call(), vec![outer, inner]));
}

#[test]
fn a_tool_may_wait_for_another_agent_and_its_listener_for_a_third() {
    let third = agent(&Scripted::from_fn(|_, _| "third"), Vec::new());
    let asks = tool("a", move |_| {
        let second = agent(&Scripted::new(["second"]), Vec::new());
        let third = third.clone();
        let _subscription = second.subscribe(move |event, _| {
            if let AgentEvent::AgentEnd { .. } = event {
                third.prompt("Go")?.wait()?;
            }
            Ok(())
        });
        Ok(second.prompt("Go")?.wait()?.text)
    });
    let scripted = one_call();
    let ended = outcome(&agent(&scripted, vec![asks]).prompt("Go").unwrap());
    assert_eq!(ended.text, "Done.");
    let requests = scripted.requests();
    assert_eq!(requests[1].transcript.messages().last().unwrap().text(), "second");
}

/// The line of who waits for whom ends with the run: an agent that was started by a tool and outlives it may use the
/// tool's agent like any other.
#[test]
fn a_tool_may_wait_for_a_later_run_of_the_agent_that_started_its_own() {
    let (main, started) = (Arc::new(OnceLock::<WeakAgent>::new()), unbounded::<Run>());
    let (go, may_go) = bounded::<()>(0);
    let reports = {
        let main = main.clone();
        tool("a", move |_| {
            may_go.recv_timeout(BOUND)?;
            let main = main.get().and_then(WeakAgent::upgrade).ok_or("the agent is gone")?;
            main.wait_for_idle()?;
            Ok(main.prompt("What now?")?.wait()?.text)
        })
    };
    let background = one_call();
    let helper = agent(&background, vec![reports]);
    let starts = {
        let (helper, started) = (helper.clone(), started.0);
        tool("a", move |_| {
            started.send(helper.prompt("Watch this")?)?;
            Ok("it is watched")
        })
    };
    let scripted = one_call();
    scripted.push("This now.");
    let agent = agent(&scripted, vec![starts]);
    let _ = main.set(agent.downgrade());
    outcome(&agent.prompt("Go").unwrap());
    go.send_timeout((), BOUND).unwrap();
    outcome(&started.1.recv_timeout(BOUND).unwrap());
    let requests = background.requests();
    assert_eq!(requests[1].transcript.messages().last().unwrap().text(), "This now.");
}

#[test]
fn an_agent_is_idle_as_soon_as_its_run_is_done_and_the_other_way_round() {
    let agent = agent(&Scripted::from_fn(|_, _| "Done."), Vec::new());
    for _ in 0..200 {
        let run = agent.prompt("Go").unwrap();
        agent.wait_for_idle().unwrap();
        assert!(run.is_done());
        let run = agent.prompt("Go").unwrap();
        outcome(&run);
        assert!(!agent.is_streaming());
    }
}

#[test]
fn a_tool_that_reads_the_events_of_its_own_agent_leaves_its_thread_to_that_agents_tools() {
    let pool = ToolPool::new(1);
    let shared = pool.clone();
    let streams = tool("a", move |context| {
        let scripted = one_call();
        let mut options = options(&scripted, vec![tool("a", |_| Ok("done"))]);
        options.tool_pool = shared.clone();
        let inner = Agent::new(scripted.model(), options)?;
        let events = inner.events();
        let run = inner.prompt("Go")?;
        while let Some(event) = events.next_timeout(BOUND) {
            context.update(event.type_name());
            if let AgentEvent::AgentEnd { .. } = event {
                return Ok(run.wait_timeout(Duration::from_secs(9)).ok_or("it hangs")??.text);
            }
        }
        Err("no event came".into())
    });
    let scripted = one_call();
    let mut options = options(&scripted, vec![streams]);
    options.tool_pool = pool;
    let agent = Agent::new(scripted.model(), options).unwrap();
    outcome(&agent.prompt("Go").unwrap());
    let requests = scripted.requests();
    assert_eq!(requests[1].transcript.messages().last().unwrap().text(), "Done.");
}
