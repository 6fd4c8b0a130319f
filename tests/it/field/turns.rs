//! G: what ends a turn and a run, and what must be over then.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_channel::bounded;
use expect_test::expect;
use serde_json::json;
use steerage::{
    AbortSignal, AssistantStream, StreamEvent, StreamRequest,
    message::{Content, ImageContent},
};

use super::*;

/// G10: a response that reached its length limit in the middle of a call.
#[test]
fn a_call_of_a_response_that_was_cut_off_never_runs_and_the_model_is_told() {
    let ran = Arc::new(AtomicBool::new(false));
    let seen = ran.clone();
    let delete = tool("delete", move || {
        seen.store(true, Ordering::SeqCst);
        String::new()
    });
    let cut = Answer::new()
        .tool_call_with_id("c", "delete", json!({"path": "/home"}))
        .stops(StopReason::Length);
    let stage = Stage::new([cut, Answer::from("shorter, then")], vec![delete]);
    stage.run("go");
    expect![[r#"
        user "go"
        assistant "" calls c (Length)
        error of c: the answer reached its length limit, so this call may be cut off; it was not run: send it again, in smaller pieces if it is long
        assistant "shorter, then"
    "#]]
    .assert_eq(&stage.transcript());
    assert!(!ran.load(Ordering::SeqCst));
}

/// G12, G13: writers of sessions that come too late.
#[test]
fn waiting_for_a_run_waits_for_its_last_listener() {
    let stage = Stage::new(["hello"], vec![]);
    let (release, released) = bounded::<()>(0);
    let (began, begun) = bounded::<()>(1);
    let saved = Arc::new(AtomicBool::new(false));
    let seen = saved.clone();
    let _writer = stage.on(move |event, _| {
        if matches!(event, AgentEvent::AgentEnd { .. }) {
            began.send(()).unwrap();
            let _ = released.recv_timeout(LIMIT);
            seen.store(true, Ordering::SeqCst);
        }
    });
    let run = stage.agent.prompt("go").unwrap();
    begun.recv_timeout(LIMIT).unwrap();
    assert!(!run.is_done());
    assert!(run.wait_timeout(Duration::ZERO).is_none());
    assert!(stage.agent.is_streaming());
    release.send(()).unwrap();
    finished(&run);
    assert!(saved.load(Ordering::SeqCst));
}

/// G18: an image for a model that is at work.
#[test]
fn images_of_a_message_that_steers_reach_the_model() {
    let stage =
        Stage::new([calls(&["look"]), Answer::from("a cat")], vec![tool("look", String::new)]);
    let image = ImageContent { data: "aGk=".into(), mime_type: "image/png".into() };
    let steered = image.clone();
    let _steerer = stage.on(move |event, agent| {
        if matches!(event, AgentEvent::ToolExecutionStart { .. }) {
            agent.steer(("what is this?", vec![steered.clone()]));
        }
    });
    stage.run("go");
    let request = &stage.model.requests()[1];
    let Some(Message::User(user)) = request.transcript.messages().last().map(|it| &**it) else {
        panic!("{request:?}");
    };
    let blocks = serde_json::to_value(&user.content).unwrap();
    let expected = [Content::text("what is this?"), Content::Image(image)];
    assert_eq!(blocks, serde_json::to_value(expected).unwrap());
}

/// G19: an abort from a listener, with a stream function that ignores the signal.
#[test]
fn nothing_is_asked_after_an_abort_even_of_a_stream_function_that_ignores_it() {
    type When = fn(&AgentEvent) -> bool;
    let at_turn: When = |event| matches!(event, AgentEvent::TurnStart);
    let at_prompt: When =
        |event| matches!(event, AgentEvent::MessageEnd { message } if message.role() == "user");
    let at_start: When = |event| matches!(event, AgentEvent::AgentStart);
    for when in [at_turn, at_prompt, at_start] {
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        let deaf = move |_: StreamRequest, _: &AbortSignal| {
            counter.fetch_add(1, Ordering::SeqCst);
            let events = vec![StreamEvent::Start, StreamEvent::Done { reason: StopReason::Stop }];
            Ok(Box::new(events.into_iter()) as Box<dyn AssistantStream>)
        };
        let options = AgentOptions { stream: Some(Arc::new(deaf)), ..AgentOptions::default() };
        let agent = Agent::new(Scripted::new(["x"]).model(), options).unwrap();
        agent.follow_up("and then");
        let weak = agent.downgrade();
        agent
            .subscribe(move |event, _| {
                if when(event) {
                    weak.upgrade().unwrap().abort();
                }
                Ok(())
            })
            .keep();
        assert_eq!(finished(&agent.prompt("go").unwrap()).end, steerage::RunEnd::Aborted);
        assert_eq!(requests.load(Ordering::SeqCst), 0);
        assert!(agent.has_queued_messages());
    }
}
