//! Agents in tools of agents and calls in calls, deep and wide, on a pool of one thread that all of them share.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use crossbeam_channel::bounded;
use serde_json::{Map, json};
use steerage::{
    Agent, ErrorKind, ExecutionMode, Tool, ToolContext, ToolPool, WeakAgent,
    testing::{Answer, Scripted},
};

use crate::robust::{BOUND, check_calls, options, outcome, tool};

const WIDE: usize = 8;

/// An agent that calls `name` eight times at once and then says that it is done.
fn asks_for(name: &str, tools: Vec<Tool>, pool: &ToolPool) -> Agent {
    let batch = (0..WIDE).fold(Answer::new(), |answer, _| answer.tool_call(name, json!({})));
    let scripted = Scripted::new([batch, Answer::from("Done.")]);
    let mut options = options(&scripted, tools);
    options.tool_pool = pool.clone();
    Agent::new(scripted.model(), options).unwrap()
}

#[track_caller]
fn check_run(agent: &Agent, results: usize) {
    let ended = outcome(&agent.prompt("Go").unwrap());
    assert_eq!(ended.text, "Done.");
    let messages = agent.messages();
    check_calls(&messages);
    let answered = messages.iter().filter_map(|message| message.as_tool_result());
    assert_eq!(answered.filter(|result| !result.is_error).count(), results);
}

/// A tool that runs an agent with the next such tool; the deepest agents have nothing to call.
fn agents_below(depth: usize, pool: &ToolPool, ran: &Arc<AtomicUsize>) -> Tool {
    let (pool, ran) = (pool.clone(), ran.clone());
    tool("sub", move |_| {
        ran.fetch_add(1, Ordering::SeqCst);
        let agent = match depth {
            1 => {
                let scripted = Scripted::new(["Done."]);
                Agent::new(scripted.model(), options(&scripted, Vec::new()))?
            }
            _ => asks_for("sub", vec![agents_below(depth - 1, &pool, &ran)], &pool),
        };
        Ok(agent.prompt("Go")?.wait()?.text)
    })
}

#[test]
fn agents_in_tools_of_agents_finish_on_one_thread() {
    let (pool, ran) = (ToolPool::new(1), Arc::default());
    let agent = asks_for("sub", vec![agents_below(3, &pool, &ran)], &pool);
    check_run(&agent, WIDE);
    assert_eq!(ran.load(Ordering::SeqCst), WIDE + WIDE * WIDE + WIDE * WIDE * WIDE);
}

/// A tool that calls itself eight times with less depth, one after another.
fn calls_itself(ran: &Arc<AtomicUsize>) -> Tool {
    let schema = json!({"type": "object", "properties": {"depth": {"type": "integer"}}});
    let ran = ran.clone();
    Tool::with_schema(
        "nest",
        "nests",
        schema,
        move |arguments: Map<_, _>, context: &ToolContext| {
            ran.fetch_add(1, Ordering::SeqCst);
            let depth = arguments.get("depth").and_then(serde_json::Value::as_u64).unwrap_or(3);
            for _ in 0..if depth > 1 { WIDE } else { 0 } {
                let inner = Map::from_iter([("depth".to_owned(), json!(depth - 1))]);
                if context.run_tool("nest", inner).is_error {
                    return Err("a nested call failed".into());
                }
            }
            Ok("done")
        },
    )
}

#[test]
fn calls_in_calls_finish_on_one_thread() {
    let (pool, ran) = (ToolPool::new(1), Arc::default());
    let agent = asks_for("nest", vec![calls_itself(&ran)], &pool);
    check_run(&agent, WIDE);
    assert_eq!(ran.load(Ordering::SeqCst), WIDE + WIDE * WIDE + WIDE * WIDE * WIDE);
}

#[test]
fn calls_of_a_host_thread_and_of_a_listener_finish_beside_a_run_on_one_thread() {
    let (pool, ran) = (ToolPool::new(1), Arc::default());
    let agent = asks_for("nest", vec![calls_itself(&ran)], &pool);
    let weak = agent.downgrade();
    let call = || steerage::message::ToolCall { name: "nest".into(), ..Default::default() };
    let _subscription = agent.subscribe(move |event, signal| {
        if event.type_name() == "tool_execution_start" {
            let agent = weak.upgrade().ok_or("the agent is gone")?;
            assert!(!agent.run_tool_call(&call(), signal).is_error);
        }
        Ok(())
    });
    let run = agent.prompt("Go").unwrap();
    let signal = steerage::AbortSignal::never();
    assert!(!agent.run_tool_call(&call(), &signal).is_error);
    assert_eq!(outcome(&run).text, "Done.");
}

/// A tool that makes its nested calls from threads of its own.
#[allow(clippy::disallowed_methods)]
fn spreads() -> Tool {
    tool("spread", |context: &ToolContext| {
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..WIDE)
                .map(|_| {
                    let context = context.clone();
                    scope.spawn(move || context.run_tool("leaf", Map::new()).is_error)
                })
                .collect();
            if calls.into_iter().any(|call| call.join().unwrap()) {
                return Err("a nested call failed".into());
            }
            Ok("done")
        })
    })
}

#[test]
fn nested_calls_from_threads_of_the_tool_finish_on_one_thread() {
    let pool = ToolPool::new(1);
    let agent = asks_for("spread", vec![spreads(), tool("leaf", |_| Ok("done"))], &pool);
    check_run(&agent, WIDE);
}

#[test]
fn waiting_in_a_nested_call_from_a_thread_of_the_tool_is_refused() {
    let agent = Arc::new(OnceLock::<WeakAgent>::new());
    let waits = {
        let agent = agent.clone();
        tool("leaf", move |_| {
            let agent = agent.get().and_then(WeakAgent::upgrade).ok_or("the agent is gone")?;
            let refused = agent.wait_for_idle().err().map(|error| error.kind());
            if refused == Some(ErrorKind::WouldDeadlock) {
                Ok("done")
            } else {
                Err("it waited".into())
            }
        })
    };
    let outer = asks_for("spread", vec![spreads(), waits], &ToolPool::new(2));
    let _ = agent.set(outer.downgrade());
    check_run(&outer, WIDE);
}

#[test]
fn calls_of_a_batch_start_in_their_order_on_one_thread() {
    let names = ["a", "b", "c", "d"];
    let batch = names.iter().fold(Answer::new(), |answer, name| answer.tool_call(*name, json!({})));
    let scripted = Scripted::new([batch, Answer::from("Done.")]);
    let (started, starts) = bounded(names.len());
    let tools = names.map(|name| {
        let started = started.clone();
        tool(name, move |_| {
            started.send(name)?;
            Ok("done")
        })
    });
    let mut options = options(&scripted, tools.into());
    options.tool_pool = ToolPool::new(1);
    options.tool_execution = ExecutionMode::Parallel;
    let agent = Agent::new(scripted.model(), options).unwrap();
    outcome(&agent.prompt("Go").unwrap());
    drop((agent, started));
    assert_eq!(starts.iter().take(4).collect::<Vec<_>>(), names);
}

/// Rayon gives a thread that waits for its own work whatever else there is to do; a whole other tool must not be that.
#[test]
fn no_tool_starts_on_a_thread_that_waits_in_rayon_for_another_ones_work() {
    let pool = ToolPool::new(2);
    let (in_halves, is_in_halves) = bounded::<()>(1);
    let (open, gate) = bounded::<()>(1);
    let (ended, has_ended) = bounded::<()>(0);
    let ended = std::sync::Mutex::new(Some(ended));
    let first = tool("a", move |_| {
        let (begun, has_begun) = bounded::<()>(1);
        let _ = rayon::join(
            || has_begun.recv_timeout(BOUND),
            || {
                let _ = (begun.send(()), in_halves.send(()));
                gate.recv_timeout(BOUND)
            },
        );
        drop(ended.lock().unwrap().take());
        Ok("done")
    });
    let second = tool("b", move |_| {
        open.send(())?;
        // Nothing is ever sent: it is closed when the first tool has come to its end.
        match has_ended.recv_timeout(BOUND) {
            Err(error) if error.is_disconnected() => Ok("done"),
            _ => Err("the first tool cannot end before this one".into()),
        }
    });
    let agents = [("a", first), ("b", second)].map(|(name, tool)| {
        let scripted =
            Scripted::new([Answer::new().tool_call(name, json!({})), Answer::from("Done.")]);
        let mut options = options(&scripted, vec![tool]);
        options.tool_pool = pool.clone();
        Agent::new(scripted.model(), options).unwrap()
    });
    let first = agents[0].prompt("Go").unwrap();
    is_in_halves.recv_timeout(BOUND).unwrap();
    check_run(&agents[1], 1);
    assert_eq!(outcome(&first).text, "Done.");
}
