//! A program that ends, panics or forks in the middle of a run neither hangs nor spoils anything.

use std::{mem, process::exit};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde_json::json;
use steerage::{
    Agent, Run,
    testing::{Answer, Scripted},
};

use crate::robust::{BOUND, agent, outcome, process::in_own_process, tool};

/// An agent with a tool at work that looks at no signal.
fn at_work() -> (Agent, Run, Sender<()>) {
    let (entered, is_inside) = bounded(1);
    let (open, gate) = bounded::<()>(0);
    let agent = with_tool(move |_| {
        let _ = entered.send(());
        let _ = gate.recv_timeout(BOUND);
    });
    agent.subscribe(|_, _| Ok(())).keep();
    let run = agent.prompt("Go").unwrap();
    is_inside.recv_timeout(BOUND).unwrap();
    (agent, run, open)
}

fn with_tool(run: impl Fn(&steerage::ToolContext) + Send + Sync + 'static) -> Agent {
    let scripted = Scripted::new([Answer::new().tool_call("a", json!({})), Answer::from("Done.")]);
    let tool = tool("a", move |context| {
        run(context);
        Ok("done")
    });
    agent(&scripted, vec![tool])
}

fn never() -> Receiver<()> {
    crossbeam_channel::never()
}

#[track_caller]
fn check(test: &str, code: i32, body: fn()) -> String {
    match in_own_process(&format!("robust::processes::{test}"), body) {
        Some((status, said)) => {
            assert_eq!(status.code(), Some(code), "{said}");
            said
        }
        None => String::new(),
    }
}

#[test]
fn a_program_may_exit_in_mid_run() {
    check("a_program_may_exit_in_mid_run", 7, || {
        let _at_work = at_work();
        exit(7);
    });
}

#[test]
fn a_program_may_exit_in_a_tool() {
    check("a_program_may_exit_in_a_tool", 7, || {
        let agent = with_tool(|_| exit(7));
        let _ = agent.prompt("Go").unwrap().wait();
        let _ = never().recv_timeout(BOUND);
    });
}

#[test]
fn a_program_may_exit_in_a_listener() {
    check("a_program_may_exit_in_a_listener", 7, || {
        let agent = with_tool(|_| ());
        agent
            .subscribe(|event, _| {
                if event.type_name() == "message_update" {
                    exit(7);
                }
                Ok(())
            })
            .keep();
        let _ = agent.prompt("Go").unwrap().wait();
        let _ = never().recv_timeout(BOUND);
    });
}

#[test]
fn a_program_may_return_in_mid_run_with_and_without_dropping_its_agent() {
    let test = "a_program_may_return_in_mid_run_with_and_without_dropping_its_agent";
    check(test, 0, || {
        mem::forget(at_work());
        let (_agent, _run, open) = at_work();
        mem::forget(open);
    });
}

#[test]
fn a_program_may_panic_in_mid_run() {
    let said = check("a_program_may_panic_in_mid_run", 101, || {
        let _at_work = at_work();
        panic!("the program is broken");
    });
    assert!(said.is_empty() || said.contains("the program is broken"), "{said}");
}

#[cfg(unix)]
mod forks {
    use std::time::Duration;

    use fork::Fork;
    use steerage::{
        AbortSignal, ErrorKind, Model, StreamFn, StreamOptions, StreamRequest,
        provider::{ProviderOptions, openai_completions::OpenAiCompletions},
        stream::collect,
        testing::server::{Gate, Response, Server},
    };

    use super::*;
    use crate::robust::process::spawn;

    /// Runs `body` in a process that is forked off here, and waits until it has ended well.
    #[track_caller]
    fn in_fork(body: impl FnOnce()) {
        match fork::fork().unwrap() {
            Fork::Child => {
                // What hangs is ended, as nobody else would.
                spawn(|| {
                    let _ = never().recv_timeout(BOUND / 2);
                    exit(9);
                });
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
                exit(i32::from(result.is_err()));
            }
            Fork::Parent(child) => assert_eq!(fork::waitpid(child).unwrap(), 0),
        }
    }

    #[track_caller]
    fn check_forks(test: &str, body: fn()) {
        super::check(&format!("forks::{test}"), 0, body);
    }

    #[test]
    fn a_fork_in_mid_run_hangs_neither_process() {
        check_forks("a_fork_in_mid_run_hangs_neither_process", || {
            let (agent, run, open) = at_work();
            in_fork(|| {
                for refused in [run.wait().unwrap_err(), agent.wait_for_idle().unwrap_err()] {
                    assert_eq!(refused.kind(), ErrorKind::WouldDeadlock);
                }
                assert_eq!(agent.prompt("Go").unwrap_err().kind(), ErrorKind::Busy);
                run.abort();
                drop(agent.clone());
                drop((agent.clone(), run.clone()));
                drop(at_work());
            });
            drop(open);
            assert_eq!(outcome(&run).text, "Done.");
        });
    }

    #[test]
    fn an_agent_of_the_parent_works_in_the_child_but_for_its_listeners() {
        let test = "an_agent_of_the_parent_works_in_the_child_but_for_its_listeners";
        check_forks(test, || {
            let scripted = Scripted::from_fn(|_, count| match count % 2 {
                0 => Answer::new().tool_call("a", json!({})),
                _ => Answer::from("Done."),
            });
            let limited = tool("a", |_| Ok("done")).time_limit(Duration::from_mins(1));
            let agent = agent(&scripted, vec![limited]);
            outcome(&agent.prompt("Go").unwrap());
            in_fork(|| assert_eq!(outcome(&agent.prompt("Go").unwrap()).text, "Done."));
            let subscription = agent.subscribe(|_, _| Ok(()));
            in_fork(|| {
                let ended = outcome(&agent.prompt("Go").unwrap());
                let text = ended.error_message.unwrap();
                assert!(text.contains("forked"), "{text}");
                drop(subscription);
                assert_eq!(outcome(&agent.prompt("Go").unwrap()).text, "Done.");
            });
            assert_eq!(outcome(&agent.prompt("Go").unwrap()).text, "Done.");
        });
    }

    fn text(text: &str) -> String {
        let chunk = json!({"choices": [{"delta": {"content": text}}]});
        format!("data: {chunk}\n\n")
    }

    fn end() -> String {
        let chunk = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
        format!("data: {chunk}\n\ndata: [DONE]\n\n")
    }

    fn model(server: &Server) -> Model {
        let model = json!({
            "id": "m", "api": "openai-completions", "provider": "openai", "baseUrl": server.url(),
            "input": ["text"], "contextWindow": 100_000, "maxTokens": 1000
        });
        serde_json::from_value(model).unwrap()
    }

    fn options() -> StreamOptions {
        StreamOptions { api_key: Some("key".into()), max_retries: Some(0), ..Default::default() }
    }

    #[test]
    fn a_connection_of_the_parent_is_left_alone_by_the_child() {
        check_forks("a_connection_of_the_parent_is_left_alone_by_the_child", || {
            let server =
                Server::answering(|_| Response::events([text("Hello!") + &end()])).unwrap();
            let model = model(&server);
            let vendor = OpenAiCompletions::new(ProviderOptions::default());
            let ask = || {
                let mut request = StreamRequest::new(model.clone(), []);
                request.options = options();
                let mut stream = vendor.stream(request, &AbortSignal::never()).unwrap();
                let message = collect(&model, &mut *stream);
                assert_eq!(message.texts().collect::<String>(), "Hello!", "{message:?}");
            };
            ask();
            ask();
            assert_eq!(server.connections(), 1);
            in_fork(ask);
            assert_eq!(server.connections(), 2);
            ask();
            assert_eq!(server.connections(), 2);
        });
    }

    #[test]
    fn a_stream_of_the_parent_goes_on_when_the_child_drops_its_copy() {
        check_forks("a_stream_of_the_parent_goes_on_when_the_child_drops_its_copy", || {
            let gate = Gate::new();
            let response =
                Response::events([text("Hel")]).chunk_behind(&gate, text("lo!") + &end());
            let server = Server::start([response]).unwrap();
            let mut options = steerage::AgentOptions {
                stream: Some(std::sync::Arc::new(OpenAiCompletions::new(
                    ProviderOptions::default(),
                ))),
                ..Default::default()
            };
            options.request = self::options();
            let agent = Agent::new(model(&server), options).unwrap();
            let events = agent.events();
            let run = agent.prompt("Go").unwrap();
            while events.next_timeout(BOUND).unwrap().text_delta().is_none() {}
            let mut agent = Some(agent);
            in_fork(|| {
                run.abort();
                drop(agent.take());
            });
            gate.open();
            assert_eq!(outcome(&run).text, "Hello!");
        });
    }
}
