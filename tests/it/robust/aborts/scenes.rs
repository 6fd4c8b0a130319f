//! What is aborted: small runs that between them do everything that a run can do.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use serde_json::json;
use steerage::{
    Agent, AgentOptions, ErrorKind, ExecutionMode, Message, Tool, ToolContext, ToolDecision,
    TurnDecision,
    agent_loop::NextTurn,
    message::StopReason,
    testing::{Answer, Scripted},
};

use crate::robust::{aborts::Probe, options, tool};

/// Makes an agent that is ready to be prompted once.
pub(super) type Scene = fn(&Probe, &Scripted) -> Agent;

pub(super) const ALL: &[(&str, Scene)] = &[
    ("a text", text),
    ("one tool", one_tool),
    ("parallel tools", parallel),
    ("tools in turn", in_turn),
    ("a sequential tool in a batch", sequential_tool),
    ("calls that fail", failing_calls),
    ("steering", steering),
    ("follow-ups", follow_ups),
    ("hooks of requests", request_hooks),
    ("hooks of turns", turn_hooks),
    ("hooks of calls", call_hooks),
    ("nested calls", nested_calls),
    ("an agent in a tool", agent_in_tool),
    ("a message that was cut off", cut_off),
    ("a response that fails", failing_response),
];

fn text(probe: &Probe, scripted: &Scripted) -> Agent {
    answers(
        probe,
        scripted,
        vec![Answer::from("A text that comes in several pieces, for it is long.")],
    );
    make(scripted, Vec::new(), |_| ())
}

fn one_tool(probe: &Probe, scripted: &Scripted) -> Agent {
    answers(probe, scripted, vec![calls(&["a"]), Answer::from("Done.")]);
    make(scripted, vec![plain(probe, "a")], |_| ())
}

fn parallel(probe: &Probe, scripted: &Scripted) -> Agent {
    answers(
        probe,
        scripted,
        vec![calls(&["a", "b", "c"]), calls(&["a", "b", "c"]), Answer::from("Done.")],
    );
    let meeting = Meeting::of(3);
    let tools = ["a", "b", "c"].map(|name| meets(probe, name, &meeting));
    make(scripted, tools.into(), |_| ())
}

fn in_turn(probe: &Probe, scripted: &Scripted) -> Agent {
    answers(probe, scripted, vec![calls(&["a", "b", "c"]), Answer::from("Done.")]);
    let tools = ["a", "b", "c"].map(|name| plain(probe, name));
    make(scripted, tools.into(), |options| options.tool_execution = ExecutionMode::Sequential)
}

fn sequential_tool(probe: &Probe, scripted: &Scripted) -> Agent {
    answers(probe, scripted, vec![calls(&["a", "b"]), calls(&["b", "a"]), Answer::from("Done.")]);
    make(scripted, vec![plain(probe, "a"), plain(probe, "b").sequential()], |_| ())
}

fn failing_calls(probe: &Probe, scripted: &Scripted) -> Agent {
    let batch = calls(&["none", "throws", "panics"]).tool_call("typed", json!({"number": "no"}));
    answers(probe, scripted, vec![batch, calls(&["throws", "panics"]), Answer::from("Done.")]);
    let meeting = Meeting::of(2);
    let throws = {
        let (probe, meeting) = (probe.clone(), meeting.clone());
        tool("throws", move |context| {
            probe.note_start("tool throws");
            meeting.wait(context);
            probe.sees("throws at work");
            Err::<String, _>("it failed".into())
        })
    };
    let panics = {
        let probe = probe.clone();
        tool("panics", move |context| -> Result<String, _> {
            probe.note_start("tool panics");
            meeting.wait(context);
            probe.sees("panics at work");
            std::panic::resume_unwind(Box::new("it broke"))
        })
    };
    let number = json!({"type": "object", "properties": {"number": {"type": "number"}}});
    let typed = {
        let (shim, probe) = (probe.clone(), probe.clone());
        Tool::with_schema("typed", "takes a number", number, move |_, _| {
            probe.starts("tool typed");
            Ok("done")
        })
        .prepare_arguments(move |arguments| {
            shim.starts("prepare_arguments");
            Ok(arguments)
        })
    };
    make(scripted, vec![throws, panics, typed], |_| ())
}

fn steering(probe: &Probe, scripted: &Scripted) -> Agent {
    answers(probe, scripted, vec![calls(&["a"]), calls(&["a"]), Answer::from("Done.")]);
    let agent = make(scripted, vec![plain(probe, "a")], |_| ());
    for text in ["one", "two", "three"] {
        let _ = agent.steer(text);
    }
    agent
}

fn follow_ups(probe: &Probe, scripted: &Scripted) -> Agent {
    let answered = (0..3).map(|number| Answer::from(format!("Answer {number}.")));
    answers(probe, scripted, answered.collect());
    let agent = make(scripted, Vec::new(), |_| ());
    for text in ["one", "two"] {
        let _ = agent.follow_up(text);
    }
    agent
}

fn request_hooks(probe: &Probe, scripted: &Scripted) -> Agent {
    answers(probe, scripted, vec![calls(&["a"]), Answer::from("Done.")]);
    let hooked = probe.clone();
    make(scripted, vec![plain(probe, "a")], move |options| {
        let hooks = &mut options.hooks;
        let probe = hooked.clone();
        hooks.prepare_request = Some(Arc::new(move |_, _| {
            probe.starts("prepare_request");
            Ok(None)
        }));
        let probe = hooked.clone();
        hooks.transform_context = Some(Arc::new(move |messages, _| {
            probe.starts("transform_context");
            Ok(messages)
        }));
        let probe = hooked.clone();
        hooks.convert_to_llm = Some(Arc::new(move |messages, _| {
            probe.starts("convert_to_llm");
            Ok(messages)
        }));
        let probe = hooked.clone();
        hooks.get_api_key = Some(Arc::new(move |_, _| {
            probe.starts("get_api_key");
            Ok(None)
        }));
        let probe = hooked;
        options.request.hooks.on_response = Some(Arc::new(move |_, _| {
            probe.starts("on_response");
            Ok(())
        }));
    })
}

fn turn_hooks(probe: &Probe, scripted: &Scripted) -> Agent {
    answers(probe, scripted, vec![calls(&["a"]), Answer::from("More."), Answer::from("Done.")]);
    let hooked = probe.clone();
    make(scripted, vec![plain(probe, "a")], move |options| {
        let probe = hooked.clone();
        options.hooks.prepare_next_turn = Some(Arc::new(move |_, _| {
            probe.starts("prepare_next_turn");
            let messages = vec![Message::user("And on.")];
            Ok(Some(NextTurn { messages, ..NextTurn::default() }))
        }));
        let (probe, turns) = (hooked, AtomicUsize::new(0));
        options.hooks.finish_turn = Some(Arc::new(move |_, _| {
            probe.sees("finish_turn");
            let is_last = turns.fetch_add(1, Ordering::Relaxed) > 1;
            Ok(if is_last { TurnDecision::End } else { TurnDecision::Continue })
        }));
    })
}

fn call_hooks(probe: &Probe, scripted: &Scripted) -> Agent {
    answers(probe, scripted, vec![calls(&["a", "blocked", "a"]), Answer::from("Done.")]);
    let hooked = probe.clone();
    let meeting = Meeting::of(2);
    let tools = ["a", "blocked"].map(|name| meets(probe, name, &meeting));
    make(scripted, tools.into(), move |options| {
        let probe = hooked.clone();
        options.hooks.before_tool_call = Some(Arc::new(move |call, _| {
            probe.starts("before_tool_call");
            Ok(match call.call.name.as_str() {
                "blocked" => ToolDecision::block("not now"),
                _ => ToolDecision::Allow,
            })
        }));
        let probe = hooked;
        options.hooks.after_tool_call = Some(Arc::new(move |_, _| {
            probe.sees("after_tool_call");
            Ok(None)
        }));
    })
}

fn nested_calls(probe: &Probe, scripted: &Scripted) -> Agent {
    answers(probe, scripted, vec![calls(&["outer"]), Answer::from("Done.")]);
    let outer = {
        let probe = probe.clone();
        tool("outer", move |context| {
            probe.starts("tool outer");
            let inner = ["inner", "none", "inner"]
                .map(|name| context.run_tool(name, json!({}).as_object().unwrap().clone()));
            probe.sees("outer at work");
            Ok(inner.map(|outcome| outcome.is_error.to_string()).join(" "))
        })
    };
    let hooked = probe.clone();
    make(scripted, vec![outer, plain(probe, "inner")], move |options| {
        options.hooks.before_tool_call = Some(Arc::new(move |_, _| {
            hooked.starts("before_tool_call");
            Ok(ToolDecision::Allow)
        }));
    })
}

fn agent_in_tool(probe: &Probe, scripted: &Scripted) -> Agent {
    answers(probe, scripted, vec![calls(&["ask"]), Answer::from("Done.")]);
    let ask = {
        let probe = probe.clone();
        tool("ask", move |context| {
            probe.starts("tool ask");
            let model = Scripted::new::<&str>([]);
            answers(&probe, &model, vec![calls(&["inner"]), Answer::from("It is so.")]);
            let agent = make(&model, vec![plain(&probe, "inner")], |_| ());
            let run = agent.prompt("How is it?")?;
            let aborted = run.clone();
            let _hook = context.signal().on_abort(move || aborted.abort());
            Ok(run.wait()?.text)
        })
    };
    make(scripted, vec![ask], |_| ())
}

fn cut_off(probe: &Probe, scripted: &Scripted) -> Agent {
    let cut = calls(&["a", "a"]).stops(StopReason::Length);
    answers(probe, scripted, vec![cut, calls(&["a"]), Answer::from("Done.")]);
    make(scripted, vec![plain(probe, "a")], |_| ())
}

fn failing_response(probe: &Probe, scripted: &Scripted) -> Agent {
    let fails = calls(&["a"]).fails(ErrorKind::Network, "the line is cut");
    answers(probe, scripted, vec![calls(&["a"]), fails]);
    make(scripted, vec![plain(probe, "a")], |_| ())
}

fn make(scripted: &Scripted, tools: Vec<Tool>, change: impl FnOnce(&mut AgentOptions)) -> Agent {
    let mut options = options(scripted, tools);
    change(&mut options);
    Agent::new(scripted.model(), options).unwrap()
}

/// Answers whose requests are places.
fn answers(probe: &Probe, scripted: &Scripted, answers: Vec<Answer>) {
    for answer in answers {
        let probe = probe.clone();
        scripted.push(Answer::with(move |_, _| {
            probe.starts("request");
            answer
        }));
    }
}

fn calls(names: &[&str]) -> Answer {
    names
        .iter()
        .fold(Answer::new().text("Let me see."), |answer, name| answer.tool_call(*name, json!({})))
}

/// A tool that starts alone.
fn plain(probe: &Probe, name: &str) -> Tool {
    let (probe, start) = (probe.clone(), format!("tool {name}"));
    tool(name, move |context| {
        probe.starts(start.clone());
        context.update("half of it");
        probe.sees("tool at work");
        Ok("done")
    })
}

/// A tool that starts together with others and goes on when all have started.
fn meets(probe: &Probe, name: &str, meeting: &Arc<Meeting>) -> Tool {
    let (probe, meeting, start) = (probe.clone(), meeting.clone(), format!("tool {name}"));
    tool(name, move |context| {
        probe.note_start(start.clone());
        meeting.wait(context);
        context.update("half of it");
        probe.sees("tool at work");
        Ok("done")
    })
}

/// Holds tools up until all of them are there, so that no abort comes while one is about to start.
struct Meeting {
    size: usize,
    arrived: AtomicUsize,
    complete: (Sender<()>, Receiver<()>),
}

impl Meeting {
    fn of(size: usize) -> Arc<Meeting> {
        Arc::new(Meeting { size, arrived: AtomicUsize::new(0), complete: bounded(size) })
    }

    fn wait(&self, context: &ToolContext) {
        if (self.arrived.fetch_add(1, Ordering::SeqCst) + 1).is_multiple_of(self.size) {
            for _ in 1..self.size {
                let _ = self.complete.0.try_send(());
            }
            return;
        }
        select! {
            recv(self.complete.1) -> _ => (),
            recv(context.signal().channel()) -> _ => (),
        }
    }
}
