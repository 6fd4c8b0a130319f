//! H: what an abort stops, and how everyone hears of it.

use crossbeam_channel::bounded;
use expect_test::expect;
use steerage::{
    Error, ErrorKind, Model, RunEnd,
    provider::{ProviderOptions, openai_completions::OpenAiCompletions},
    testing::server::{End, Response, Server},
};

use super::*;

/// H10: a stop while the server is silent, then a new prompt.
#[test]
fn an_abort_ends_a_silent_stream_and_the_agent_takes_the_next_prompt() {
    let chunk = |text: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
    };
    let finish =
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for silent in [Response::hang(), Response::events([chunk("half")]).end(End::Hang)] {
        let whole = Response::events([chunk("whole"), finish.to_owned()]);
        let server = Server::start([silent.clone(), whole]).unwrap();
        let model = Model::openai_compatible("m", server.url());
        let provider = OpenAiCompletions::new(ProviderOptions::default());
        let options = AgentOptions { stream: Some(Arc::new(provider)), ..AgentOptions::default() };
        let agent = Agent::new(model, options).unwrap();
        let events = agent.events();
        let run = agent.prompt("go").unwrap();
        if silent.chunks.is_empty() {
            assert!(server.wait_for_requests(1, LIMIT));
        } else {
            while events.next_timeout(LIMIT).unwrap().text_delta().is_none() {}
        }
        run.abort();
        let outcome = finished(&run);
        assert_eq!(outcome.end, RunEnd::Aborted);
        assert_eq!(outcome.text, if silent.chunks.is_empty() { "" } else { "half" });
        let again = agent.prompt("again").unwrap();
        assert_eq!(finished(&again).text, "whole");
    }
}

/// Aborts at the n-th event of a run with tools; tells whether the run had that many.
fn abort_at(nth: usize) -> bool {
    let stage = Stage::new(
        [calls(&["one", "two"]), "done".into()],
        vec![tool("one", String::new), tool("two", String::new)],
    );
    let (ends, count) = (Arc::new(Mutex::new(Vec::new())), Mutex::new(0));
    let _aborter = stage.on(move |_, agent| {
        let mut count = count.lock().unwrap();
        *count += 1;
        if *count == nth {
            agent.abort();
        }
    });
    let seen = ends.clone();
    let _listener = stage.on(move |event, _| {
        if let AgentEvent::AgentEnd { messages } = event {
            let last = messages.iter().rev().find_map(|it| it.as_assistant());
            seen.lock().unwrap().push(last.map(|it| it.stop_reason));
        }
    });
    let run = stage.agent.prompt("go").unwrap();
    let outcome = finished(&run);
    let ends = ends.lock().unwrap().clone();
    assert_eq!(ends.len(), 1, "one end at event {nth}: {ends:?}");
    let aborted = ends[0] == Some(StopReason::Aborted);
    assert_eq!(aborted, outcome.end == RunEnd::Aborted);
    assert_eq!(aborted, run.wait().is_err_and(|error| error.kind() == ErrorKind::Aborted));
    aborted
}

/// H12, H13, H14, H16, H17, H18: some places of an abort had no event, or two, or a fatal error.
#[test]
fn wherever_an_abort_comes_there_is_one_end_that_says_so() {
    let aborted = (1..200).take_while(|nth| abort_at(*nth)).count();
    assert!(aborted > 15, "only {aborted} events");
}

/// H9, H19: calls that ran, were interrupted or never began.
#[test]
fn a_call_that_was_interrupted_is_not_told_as_one_that_never_ran() {
    let began = Latch::default();
    let options = AgentOptions {
        tools: vec![patient("running", &began), tool("waiting", String::new)],
        tool_execution: steerage::ExecutionMode::Sequential,
        ..AgentOptions::default()
    };
    let stage = Stage::with([calls(&["running", "waiting"])], options);
    let run = stage.agent.prompt("go").unwrap();
    began.wait();
    run.abort();
    finished(&run);
    expect![[r#"
        user "go"
        assistant "" calls running, waiting
        error of running: interrupted
        error of waiting: this call was not run: the run was aborted
        assistant "" (Aborted)
    "#]]
    .assert_eq(&stage.transcript());
}

/// H11: no way to stop without breaking something off.
#[test]
fn a_soft_stop_lets_the_turn_end() {
    let (handle, handles) = bounded::<steerage::Run>(1);
    let work = tool("work", move || {
        handles.recv_timeout(LIMIT).unwrap().stop_after_turn();
        "worked".to_owned()
    });
    let stage = Stage::new([calls(&["work"]), "never asked".into()], vec![work]);
    let run = stage.agent.prompt("go").unwrap();
    handle.send(run.clone()).unwrap();
    assert_eq!(finished(&run).end, RunEnd::Stopped);
    expect![[r#"
        user "go"
        assistant "" calls work
        result of work: worked
    "#]]
    .assert_eq(&stage.transcript());
}

/// H15: nobody reads the events.
#[test]
fn an_observer_that_nobody_reads_does_not_hold_the_run_up() {
    let answers = (0..60).map(|_| calls(&["one", "two"])).chain([Answer::from("done")]);
    let stage = Stage::new(answers, vec![tool("one", String::new), tool("two", String::new)]);
    let unread = stage.agent.events();
    assert_eq!(stage.run("go").text, "done");
    assert!(unread.drain(usize::MAX).len() > 500);
}

/// H15: a listener, a hook or a tool waits for the run that waits for it.
#[test]
fn waiting_for_a_run_in_its_own_listener_is_an_error_at_once() {
    let stage = Stage::new(["hello"], vec![]);
    let errors: Arc<Mutex<Vec<Error>>> = Arc::default();
    let seen = errors.clone();
    let _waiter = stage.on(move |event, agent| {
        if matches!(event, AgentEvent::TurnStart) {
            seen.lock().unwrap().extend(agent.wait_for_idle().err());
        }
    });
    assert_eq!(stage.run("go").text, "hello");
    let errors = errors.lock().unwrap();
    assert_eq!(errors.iter().map(Error::kind).collect::<Vec<_>>(), [ErrorKind::WouldDeadlock]);
}
