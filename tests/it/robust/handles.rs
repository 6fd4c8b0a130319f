//! The last handle of an agent goes anywhere and at any time: the run is aborted, nothing blocks, everything is let go.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex},
};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde_json::json;
use steerage::{
    Agent, AgentOptions, QueueStatus, Run, RunEnd, Subscription, ToolDecision, TurnDecision,
    testing::{Answer, Scripted},
};

use crate::robust::{BOUND, check_calls, options, outcome, tool};

/// Drops the last handle of an agent when it is told to.
#[derive(Clone)]
struct Last {
    handle: (Sender<Agent>, Receiver<Agent>),
    /// A copy is kept by everything that the agent holds; all are gone when the channel is closed.
    held: Arc<Mutex<Option<Sender<()>>>>,
    gone: Receiver<()>,
}

/// What stands for a copy of [`Last::held`].
type Held = Sender<()>;

impl Last {
    fn new() -> Last {
        let (held, gone) = bounded(0);
        Last { handle: bounded(1), held: Arc::new(Mutex::new(Some(held))), gone }
    }

    fn hold(&self) -> Held {
        self.held.lock().unwrap().clone().unwrap()
    }

    /// Drops the handle, if it has not been dropped yet.
    fn drop_handle(&self) {
        let is_first = self.held.lock().unwrap().take().is_some();
        if is_first {
            drop(self.handle.1.recv_timeout(BOUND).unwrap());
        }
    }

    /// Prompts the agent and gives the handle away.
    #[track_caller]
    fn check(self, agent: Agent) {
        let weak = agent.downgrade();
        let receipt = agent.follow_up("Later");
        let run = agent.prompt("Go").unwrap();
        self.handle.0.send(agent).unwrap();
        let ended = outcome(&run);
        assert_eq!(ended.end, RunEnd::Aborted);
        check_calls(&ended.messages);
        assert!(weak.upgrade().is_none());
        assert_ne!(receipt.status(), QueueStatus::Queued);
        check_gone(&self.gone);
    }
}

/// Waits until everything that the agent held is gone.
#[track_caller]
fn check_gone(gone: &Receiver<()>) {
    let ended = gone.recv_timeout(BOUND);
    assert!(ended.is_err_and(|error| error.is_disconnected()), "something is still held");
}

/// An agent that calls a tool and goes on. Its model is nobody else's: it keeps the requests with their hooks.
fn make(last: &Last, answers: Vec<Answer>, change: impl FnOnce(&mut AgentOptions)) -> Agent {
    let scripted = Scripted::new(answers);
    let held = last.hold();
    let plain = tool("a", move |_| {
        let _ = &held;
        Ok("done")
    });
    let mut options = options(&scripted, vec![plain]);
    change(&mut options);
    Agent::new(scripted.model(), options).unwrap()
}

fn one_call() -> Vec<Answer> {
    vec![Answer::new().tool_call("a", json!({})), Answer::from("Done.")]
}

#[test]
fn the_last_handle_may_go_in_a_listener_at_any_event() {
    // The events of two turns with one call; none of the last, after which nothing is left to abort.
    for place in 1..=16 {
        let last = Last::new();
        let agent = make(&last, one_call(), |_| ());
        let (listener, held) = (last.clone(), last.hold());
        let mut events = 0;
        agent
            .subscribe(move |_, _| {
                let _ = &held;
                events += 1;
                if events == place {
                    listener.drop_handle();
                }
                Ok(())
            })
            .keep();
        last.check(agent);
    }
}

#[test]
fn the_last_handle_may_go_in_a_tool() {
    let last = Last::new();
    let (inside, held) = (last.clone(), last.hold());
    let drops = tool("a", move |_| {
        let _ = &held;
        inside.drop_handle();
        Ok("done")
    });
    let agent = make(&last, one_call(), |options| options.tools = vec![drops]);
    last.check(agent);
}

#[test]
fn the_last_handle_may_go_in_a_hook_of_calls_or_turns() {
    type Set = fn(&mut AgentOptions, Last, Held);
    let hooks: [Set; 4] = [
        |it, last, held| {
            it.hooks.before_tool_call = Some(Arc::new(move |_, _| {
                let _ = &held;
                last.drop_handle();
                Ok(ToolDecision::Allow)
            }));
        },
        |it, last, held| {
            it.hooks.after_tool_call = Some(Arc::new(move |_, _| {
                let _ = &held;
                last.drop_handle();
                Ok(None)
            }));
        },
        |it, last, held| {
            it.hooks.finish_turn = Some(Arc::new(move |_, _| {
                let _ = &held;
                last.drop_handle();
                Ok(TurnDecision::Proceed)
            }));
        },
        |it, last, held| {
            it.hooks.prepare_next_turn = Some(Arc::new(move |_, _| {
                let _ = &held;
                last.drop_handle();
                Ok(None)
            }));
        },
    ];
    check_hooks(&hooks);
}

#[test]
fn the_last_handle_may_go_in_a_hook_of_requests() {
    type Set = fn(&mut AgentOptions, Last, Held);
    let hooks: [Set; 4] = [
        |it, last, held| {
            it.hooks.prepare_request = Some(Arc::new(move |_, _| {
                let _ = &held;
                last.drop_handle();
                Ok(None)
            }));
        },
        |it, last, held| {
            it.hooks.transform_context = Some(Arc::new(move |messages, _| {
                let _ = &held;
                last.drop_handle();
                Ok(messages)
            }));
        },
        |it, last, held| {
            it.hooks.get_api_key = Some(Arc::new(move |_, _| {
                let _ = &held;
                last.drop_handle();
                Ok(None)
            }));
        },
        |it, last, held| {
            it.request.hooks.on_response = Some(Arc::new(move |_, _| {
                let _ = &held;
                last.drop_handle();
                Ok(())
            }));
        },
    ];
    check_hooks(&hooks);
}

#[track_caller]
fn check_hooks(hooks: &[fn(&mut AgentOptions, Last, Held)]) {
    for set in hooks {
        let last = Last::new();
        let (inside, held) = (last.clone(), last.hold());
        let agent = make(&last, one_call(), move |options| set(options, inside, held));
        last.check(agent);
    }
}

#[test]
fn the_last_handle_may_go_in_the_stream_function_or_a_wake_callback() {
    let last = Last::new();
    let inside = last.clone();
    let answer = Answer::with(move |_, _| {
        inside.drop_handle();
        "Never mind."
    });
    let agent = make(&last, vec![answer], |_| ());
    last.check(agent);

    let last = Last::new();
    let agent = make(&last, one_call(), |_| ());
    let (inside, held) = (last.clone(), last.hold());
    let events = agent.events().on_wake(move || {
        let _ = &held;
        inside.drop_handle();
    });
    last.check(agent);
    assert!(events.is_closed());
}

#[test]
fn the_last_handle_may_go_in_a_hook_of_the_abort() {
    let last = Last::new();
    let waits = tool("a", |context| {
        context.signal().wait_timeout(BOUND);
        Ok("done")
    });
    let agent = make(&last, one_call(), |options| options.tools.insert(0, waits));
    let inside = last.clone();
    let started = started(&agent);
    let weak = agent.downgrade();
    let run = agent.prompt("Go").unwrap();
    let _hook = run.signal().on_abort(move || inside.drop_handle());
    last.handle.0.send(agent).unwrap();
    started.recv_timeout(BOUND).unwrap();
    run.abort();
    assert!(weak.upgrade().is_none());
    assert_eq!(outcome(&run).end, RunEnd::Aborted);
    check_gone(&last.gone);
}

/// Tells when the first tool starts.
fn started(agent: &Agent) -> Receiver<()> {
    let (sender, receiver) = bounded(1);
    agent
        .subscribe(move |event, _| {
            if event.type_name() == "tool_execution_start" {
                let _ = sender.try_send(());
            }
            Ok(())
        })
        .keep();
    receiver
}

/// Where a host's code is when the last handle goes: it looks at no signal until it is let go.
struct Stall {
    entered: Sender<()>,
    release: Receiver<()>,
}

impl Stall {
    /// Waits to be let go; fails if that does not happen, which a drop that waits for this code would cause.
    fn wait(&self) {
        let _ = self.entered.try_send(());
        let ended = self.release.recv_timeout(BOUND);
        assert!(ended.is_err_and(|error| error.is_disconnected()), "the drop waits for this");
    }
}

#[track_caller]
fn check_drop_does_not_wait(make: impl FnOnce(Stall) -> Agent) {
    let (entered, is_inside) = bounded(1);
    let (open, release) = bounded(0);
    let agent = make(Stall { entered, release });
    let run: Run = agent.prompt("Go").unwrap();
    is_inside.recv_timeout(BOUND).unwrap();
    drop(agent);
    drop(open);
    assert_eq!(outcome(&run).end, RunEnd::Aborted);
}

#[test]
fn dropping_the_last_handle_waits_for_no_listener_hook_tool_or_stream() {
    check_drop_does_not_wait(|stall| {
        let scripted = Scripted::new(one_call());
        let agent = crate::robust::agent(&scripted, vec![tool("a", |_| Ok("done"))]);
        agent
            .subscribe(move |event, _| {
                if event.type_name() == "turn_start" {
                    stall.wait();
                }
                Ok(())
            })
            .keep();
        agent
    });
    check_drop_does_not_wait(|stall| {
        let scripted = Scripted::new(one_call());
        let mut options = options(&scripted, vec![tool("a", |_| Ok("done"))]);
        options.hooks.before_tool_call = Some(Arc::new(move |_, _| {
            stall.wait();
            Ok(ToolDecision::Allow)
        }));
        Agent::new(scripted.model(), options).unwrap()
    });
    check_drop_does_not_wait(|stall| {
        let scripted = Scripted::new(one_call());
        let stuck = tool("a", move |_| {
            stall.wait();
            Ok("done")
        });
        crate::robust::agent(&scripted, vec![stuck])
    });
    check_drop_does_not_wait(|stall| {
        let scripted = Scripted::new([Answer::with(move |_, _| {
            stall.wait();
            "Done."
        })]);
        crate::robust::agent(&scripted, Vec::new())
    });
}

#[test]
fn a_subscription_that_outlives_its_agent_keeps_no_thread() {
    let (held, gone) = bounded::<()>(0);
    let agent = crate::robust::agent(&Scripted::new(["Done."]), Vec::new());
    let subscription = agent.subscribe(move |_, _| {
        let _ = &held;
        Ok(())
    });
    outcome(&agent.prompt("Go").unwrap());
    drop(agent);
    check_gone(&gone);
    drop(subscription);
}

#[test]
fn a_listener_that_holds_its_own_subscription_ends_with_its_agent() {
    let (held, gone) = bounded::<()>(0);
    let agent = crate::robust::agent(&Scripted::new(["Done."]), Vec::new());
    let own: Arc<Mutex<Option<Subscription>>> = Arc::default();
    let subscription = {
        let own = own.clone();
        agent.subscribe(move |event, _| {
            let _ = &held;
            // It unsubscribes at an event that never comes.
            if event.type_name() == "tool_execution_start" {
                drop(own.lock().unwrap().take());
            }
            Ok(())
        })
    };
    *own.lock().unwrap() = Some(subscription);
    drop(own);
    outcome(&agent.prompt("Go").unwrap());
    drop(agent);
    check_gone(&gone);
}

thread_local! {
    static AGENT: RefCell<Option<(Agent, Run)>> = const { RefCell::new(None) };
}

/// Waits for its run when it is dropped, as a careful host might.
struct Waits(Run);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.abort();
        let _ = self.0.wait();
    }
}

thread_local! {
    static WAITS: RefCell<Option<Waits>> = const { RefCell::new(None) };
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_last_handle_may_go_with_the_thread_that_owns_it() {
    let (held, gone) = bounded::<()>(0);
    let scripted = Scripted::new(one_call());
    let waits = tool("a", move |context| {
        let _ = &held;
        context.signal().wait_timeout(BOUND);
        Ok("done")
    });
    let run = std::thread::spawn(move || {
        let agent = crate::robust::agent(&scripted, vec![waits]);
        let started = started(&agent);
        let run = agent.prompt("Go").unwrap();
        started.recv_timeout(BOUND).unwrap();
        WAITS.set(Some(Waits(run.clone())));
        AGENT.set(Some((agent, run.clone())));
        run
    });
    let run = run.join().unwrap();
    assert_eq!(outcome(&run).end, RunEnd::Aborted);
    check_gone(&gone);
}

#[test]
fn what_an_agent_held_is_gone_soon_after_its_last_handle_while_idle() {
    let (held, gone) = bounded::<()>(0);
    let scripted = Scripted::new(one_call());
    let plain = tool("a", move |_| {
        let _ = &held;
        Ok("done")
    });
    let agent = crate::robust::agent(&scripted, vec![plain]);
    outcome(&agent.prompt("Go").unwrap());
    drop(agent);
    check_gone(&gone);
}
