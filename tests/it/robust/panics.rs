//! A panic of the host's code becomes an error; no thread ends, no lock stays held, the agent works on.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crossbeam_channel::bounded;
use serde_json::json;
use steerage::{
    AbortController, AbortSignal, Agent, AgentOptions, AssistantStream, Error, ErrorKind, RunEnd,
    StreamEvent, StreamRequest,
    testing::{Answer, Scripted},
};

use crate::robust::{BOUND, agent, check_calls, options, outcome, tool};

/// Panics without the report on standard error.
fn panic_quietly() -> ! {
    std::panic::resume_unwind(Box::new("it broke"))
}

/// What a careless host throws: it panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic_quietly();
        }
    }
}

/// The agent answers as if nothing had been.
#[track_caller]
fn check_works(agent: &Agent, scripted: &Scripted) {
    scripted.set_answers(["Still here."]);
    assert_eq!(outcome(&agent.prompt("Are you there?").unwrap()).text, "Still here.");
    check_calls(&agent.messages());
}

#[test]
fn a_hook_of_a_signal_that_panics_ends_neither_the_abort_nor_the_other_hooks() {
    let controller = AbortController::new();
    let child = controller.signal().child();
    let _before = controller.signal().on_abort(|| panic_quietly());
    let told = Arc::new(AtomicUsize::new(0));
    let _after = {
        let told = told.clone();
        controller.signal().on_abort(move || {
            told.fetch_add(1, Ordering::SeqCst);
        })
    };
    controller.abort();
    assert_eq!(told.load(Ordering::SeqCst), 1);
    assert!(child.wait_timeout(BOUND));
}

#[test]
#[allow(clippy::disallowed_methods)]
fn a_child_of_a_signal_knows_of_the_abort_before_the_hooks_of_its_parent_have_run() {
    let controller = AbortController::new();
    let (in_hook, is_in_hook) = bounded::<()>(0);
    let (release, released) = bounded::<()>(0);
    let _slow = controller.signal().on_abort(move || {
        let _ = in_hook.send(());
        let _ = released.recv_timeout(BOUND);
    });
    let child = controller.signal().child();
    let first = {
        let controller = controller.clone();
        std::thread::spawn(move || controller.abort())
    };
    is_in_hook.recv_timeout(BOUND).unwrap();
    // A second abort has nothing to wait for, and what it promises holds.
    controller.abort();
    assert!(child.is_aborted());
    drop(release);
    first.join().unwrap();
}

#[test]
fn a_panic_with_a_value_that_panics_again_is_an_error_result() {
    let bomb = tool("bomb", |_| -> Result<String, _> { std::panic::resume_unwind(Box::new(Bomb)) });
    let scripted =
        Scripted::new([Answer::new().tool_call("bomb", json!({})), Answer::from("I see.")]);
    let agent = agent(&scripted, vec![bomb]);
    assert_eq!(outcome(&agent.prompt("Go").unwrap()).text, "I see.");
    let messages = agent.messages();
    let result = messages.iter().find_map(|message| message.as_tool_result()).unwrap();
    assert!(result.is_error);
    check_works(&agent, &scripted);
}

#[test]
fn a_hook_that_panics_breaks_its_run_only() {
    type Setup = fn(&mut AgentOptions);
    let hooks: [(&str, Setup); 7] = [
        ("prepare_request", |it| it.hooks.prepare_request = Some(Arc::new(|_, _| panic_quietly()))),
        ("transform_context", |it| {
            it.hooks.transform_context = Some(Arc::new(|_, _| panic_quietly()));
        }),
        ("convert_to_llm", |it| it.hooks.convert_to_llm = Some(Arc::new(|_, _| panic_quietly()))),
        ("get_api_key", |it| it.hooks.get_api_key = Some(Arc::new(|_, _| panic_quietly()))),
        ("finish_turn", |it| it.hooks.finish_turn = Some(Arc::new(|_, _| panic_quietly()))),
        ("prepare_next_turn", |it| {
            it.hooks.prepare_next_turn = Some(Arc::new(|_, _| panic_quietly()));
        }),
        ("on_response", |it| {
            it.request.hooks.on_response = Some(Arc::new(|_, _| panic_quietly()));
        }),
    ];
    for (name, set) in hooks {
        let scripted =
            Scripted::new([Answer::new().tool_call("a", json!({})), Answer::from("Done.")]);
        let mut options = options(&scripted, vec![tool("a", |_| Ok("done"))]);
        set(&mut options);
        let agent = Agent::new(scripted.model(), options).unwrap();
        let ended = outcome(&agent.prompt("Go").unwrap());
        assert!(matches!(ended.end, RunEnd::Broken | RunEnd::Failed), "{name}: {:?}", ended.end);
        assert_eq!(ended.error_message.as_deref(), Some("it broke"), "{name}");
        agent.configure(|it| (it.hooks, it.request) = Default::default()).unwrap();
        check_works(&agent, &scripted);
    }
}

#[test]
fn a_hook_of_a_call_that_panics_is_that_calls_error_result() {
    type Setup = fn(&mut AgentOptions);
    let hooks: [Setup; 2] = [
        |it| it.hooks.before_tool_call = Some(Arc::new(|_, _| panic_quietly())),
        |it| it.hooks.after_tool_call = Some(Arc::new(|_, _| panic_quietly())),
    ];
    for set in hooks {
        let scripted =
            Scripted::new([Answer::new().tool_call("a", json!({})), Answer::from("Done.")]);
        let mut options = options(&scripted, vec![tool("a", |_| Ok("done"))]);
        set(&mut options);
        let agent = Agent::new(scripted.model(), options).unwrap();
        assert_eq!(outcome(&agent.prompt("Go").unwrap()).text, "Done.");
        let messages = agent.messages();
        let result = messages.iter().find_map(|message| message.as_tool_result()).unwrap();
        assert!(result.is_error);
        assert_eq!(messages[messages.len() - 2].text(), "it broke");
    }
}

#[test]
fn a_listener_that_panics_breaks_its_run_only() {
    for place in 1..=8 {
        let scripted = Scripted::new(["Hello!"]);
        let agent = agent(&scripted, Vec::new());
        let mut events = 0;
        let subscription = agent.subscribe(move |_, _| {
            events += 1;
            if events == place {
                panic_quietly();
            }
            Ok(())
        });
        let ended = outcome(&agent.prompt("Go").unwrap());
        assert_eq!(ended.end, RunEnd::Broken, "at event {place}");
        assert_eq!(ended.error_message.as_deref(), Some("it broke"));
        // The listener itself lives on, too.
        check_works(&agent, &scripted);
        drop(subscription);
        check_works(&agent, &scripted);
    }
}

#[test]
fn a_wake_callback_that_panics_holds_nothing_up() {
    let scripted = Scripted::new(["Hello!"]);
    let agent = agent(&scripted, Vec::new());
    let events = agent.events().on_wake(|| panic_quietly());
    assert_eq!(outcome(&agent.prompt("Go").unwrap()).end, RunEnd::Completed);
    assert!(!events.is_empty());
    check_works(&agent, &scripted);
    drop(agent);
    assert!(events.last().is_some());
}

/// A stream that panics somewhere.
struct Broken {
    events: std::vec::IntoIter<StreamEvent>,
    at: &'static str,
}

impl Iterator for Broken {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        if self.at == "next" && self.events.len() == 2 {
            panic_quietly();
        }
        self.events.next()
    }
}

impl AssistantStream for Broken {
    fn more_is_ready(&self) -> bool {
        self.at == "more_is_ready" && panic_quietly()
    }

    fn may_read_ahead(&self) -> bool {
        self.at == "may_read_ahead" && panic_quietly()
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        if self.at == "drop" && !std::thread::panicking() {
            panic_quietly();
        }
    }
}

#[test]
fn a_stream_that_panics_anywhere_breaks_its_run_only() {
    for at in ["stream", "next", "more_is_ready", "may_read_ahead", "drop"] {
        let scripted = Scripted::new::<&str>([]);
        let broken =
            move |_: StreamRequest, _: &AbortSignal| -> Result<Box<dyn AssistantStream>, Error> {
                if at == "stream" {
                    panic_quietly();
                }
                let delta = "Hello".to_owned();
                let events = vec![
                    StreamEvent::Start,
                    StreamEvent::TextStart { content_index: 0 },
                    StreamEvent::TextDelta { content_index: 0, delta },
                    StreamEvent::Done { reason: steerage::message::StopReason::Stop },
                ];
                Ok(Box::new(Broken { events: events.into_iter(), at }))
            };
        let mut options = options(&scripted, Vec::new());
        options.stream = Some(Arc::new(broken));
        let agent = Agent::new(scripted.model(), options).unwrap();
        let ended = outcome(&agent.prompt("Go").unwrap());
        assert_eq!(ended.end, RunEnd::Broken, "in {at}");
        assert_eq!(ended.failure.unwrap().kind, ErrorKind::Callback, "in {at}");
        agent.configure(|options| options.stream = Some(scripted.clone().into())).unwrap();
        check_works(&agent, &scripted);
    }
}
