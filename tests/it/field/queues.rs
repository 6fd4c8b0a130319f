//! H: messages that are queued while a run works, stops or fails.

use crossbeam_channel::bounded;
use expect_test::{Expect, expect};
use steerage::{ErrorKind, QueueMode, QueueStatus};

use super::*;

/// Runs two prompts' worth of turns with two steering messages and a follow-up queued from the start, aborting at the
/// n-th event; every queued message stands in the transcript once or is still queued, as its receipt says.
fn abort_at(nth: usize, mode: QueueMode) -> bool {
    let options = AgentOptions {
        tools: vec![tool("look", String::new)],
        steering_mode: mode,
        ..AgentOptions::default()
    };
    let stage =
        Stage::with([calls(&["look"]), "one".into(), "two".into(), "three".into()], options);
    let receipts = [
        ("s1", stage.agent.steer("s1")),
        ("s2", stage.agent.steer("s2")),
        ("f1", stage.agent.follow_up("f1")),
    ];
    let count = Mutex::new(0);
    let _aborter = stage.on(move |_, agent| {
        let mut count = count.lock().unwrap();
        *count += 1;
        if *count == nth {
            agent.abort();
        }
    });
    let run = stage.agent.prompt("go").unwrap();
    let was_aborted = finished(&run).end == steerage::RunEnd::Aborted;
    let transcript = stage.transcript();
    let queued: Vec<String> =
        stage.agent.queued().iter().map(|it| it.message.text().into_owned()).collect();
    for (text, receipt) in &receipts {
        let stands = transcript.matches(&format!("user {text:?}")).count();
        let waits = queued.iter().filter(|it| it == text).count();
        let told = match receipt.status() {
            QueueStatus::Delivered => (1, 0),
            QueueStatus::Queued => (0, 1),
            QueueStatus::Dropped => (0, 0),
        };
        assert_eq!((stands, waits), told, "{text} at event {nth} ({mode:?})\n{transcript}");
        assert_ne!(receipt.status(), QueueStatus::Dropped, "{text} at event {nth}");
    }
    assert!(queued.is_sorted_by_key(|it| it.starts_with('f')), "{queued:?}");
    was_aborted
}

/// H1, H2, H17: a message that was taken from the queue when the abort came.
#[test]
fn no_queued_message_is_lost_whenever_the_abort_comes() {
    for mode in [QueueMode::OneAtATime, QueueMode::All] {
        let aborted = (1..100).take_while(|nth| abort_at(*nth, mode)).count();
        assert!(aborted > 20, "only {aborted} events");
    }
}

/// H1: the run breaks between taking a message and adding it.
#[test]
fn a_message_whose_delivery_failed_is_put_back_at_the_front() {
    let options = AgentOptions { steering_mode: QueueMode::All, ..AgentOptions::default() };
    let stage = Stage::with(["one", "two"], options);
    for text in ["s1", "s2", "s3"] {
        stage.agent.steer(text);
    }
    let broken = stage.agent.subscribe(|event, _| match event {
        AgentEvent::MessageStart { message } if message.text() == "s2" => Err("disk full".into()),
        _ => Ok(()),
    });
    assert_eq!(stage.run("go").end, steerage::RunEnd::Broken);
    drop(broken);
    let queued = stage.agent.queued();
    let texts: Vec<_> = queued.iter().map(|it| it.message.text()).collect();
    assert_eq!(texts, ["s2", "s3"]);
    stage.run("again");
    expect![[r#"
        user "go"
        user "s1"
        assistant "" (Error)
        user "again"
        user "s2"
        user "s3"
        assistant "one"
    "#]]
    .assert_eq(&stage.transcript());
}

/// H3: a message accepted after the stop.
#[test]
fn what_is_queued_after_an_abort_stays_queued() {
    let stage =
        Stage::new([calls(&["wait"]), "on".into()], vec![patient("wait", &Latch::default())]);
    let before = stage.agent.steer("before");
    let _aborter = stage.on(|event, agent| {
        if matches!(event, AgentEvent::ToolExecutionStart { .. }) {
            agent.abort();
            agent.clear_all_queues();
            agent.follow_up("after");
        }
    });
    stage.agent.remove(before.id());
    stage.agent.steer("cleared");
    stage.agent.set_steering_mode(QueueMode::All);
    stage.run("go");
    let queued = stage.agent.queued();
    let texts: Vec<_> = queued.iter().map(|it| it.message.text()).collect();
    assert_eq!(texts, ["after"]);
    assert_eq!(before.status(), QueueStatus::Dropped);
}

/// Steers while the tool runs, then lets it end; what the second request ends with.
#[track_caller]
fn check_steering(steer: impl FnOnce(&Agent), expected: Expect) {
    let (release, released) = bounded::<()>(0);
    let (began, begun) = bounded::<()>(1);
    let work = tool("work", move || {
        began.send(()).unwrap();
        let _ = released.recv_timeout(LIMIT);
        "worked".to_owned()
    });
    let stage = Stage::new([calls(&["work"]), "one".into(), "two".into()], vec![work]);
    let run = stage.agent.prompt("go").unwrap();
    begun.recv_timeout(LIMIT).unwrap();
    steer(&stage.agent);
    release.send(()).unwrap();
    finished(&run);
    expected.assert_eq(&stage.transcript());
}

/// H4, H6: a message while tools run.
#[test]
fn a_message_that_comes_while_a_tool_runs_is_in_the_next_request() {
    check_steering(
        |agent| {
            let receipt = agent.steer("left");
            assert_eq!(receipt.status(), QueueStatus::Queued);
        },
        expect![[r#"
            user "go"
            assistant "" calls work
            result of work: worked
            user "left"
            assistant "one"
        "#]],
    );
}

/// H7: the order in which queues are read.
#[test]
fn steering_goes_before_follow_ups_which_wait_until_the_run_would_stop() {
    check_steering(
        |agent| {
            agent.follow_up("later");
            agent.steer("now");
        },
        expect![[r#"
            user "go"
            assistant "" calls work
            result of work: worked
            user "now"
            assistant "one"
            user "later"
            assistant "two"
        "#]],
    );
}

/// H7: a transcript that was shortened because it was too long, with messages waiting.
#[test]
fn queues_are_read_on_after_the_transcript_was_replaced() {
    let overflow = Answer::new().fails(ErrorKind::ContextOverflow, "too long");
    let stage = Stage::new([overflow, "one".into(), "two".into(), "three".into()], vec![]);
    let _queuer = stage.on(|event, agent| {
        if matches!(event, AgentEvent::TurnEnd { .. })
            && !agent.has_queued_messages()
            && agent.error_message().is_some()
        {
            agent.follow_up("f1");
            agent.steer("s1");
        }
    });
    stage.run("go");
    stage.agent.set_messages(vec![Message::user("in short")]);
    finished(&stage.agent.resume().unwrap());
    expect![[r#"
        user "in short"
        user "s1"
        assistant "one"
        user "f1"
        assistant "two"
    "#]]
    .assert_eq(&stage.transcript());
    assert!(!stage.agent.has_queued_messages());
}

/// H5: a message that was dropped, and one that was not.
#[test]
fn a_receipt_says_what_became_of_a_message() {
    let stage = Stage::new(["one", "two", "three"], vec![]);
    let delivered = stage.agent.steer("a");
    let removed = stage.agent.steer("b");
    let cleared = stage.agent.follow_up("c");
    assert_eq!(stage.agent.remove(removed.id()).unwrap().text(), "b");
    stage.agent.clear_follow_up_queue();
    let waiting = stage.agent.follow_up("d");
    assert_eq!(waiting.status(), QueueStatus::Queued);
    stage.run("go");
    let states = [&delivered, &removed, &cleared, &waiting].map(steerage::Receipt::status);
    use QueueStatus::{Delivered, Dropped};
    assert_eq!(states, [Delivered, Dropped, Dropped, Delivered]);
    let orphan = stage.agent.steer("e");
    drop(stage);
    assert_eq!(orphan.status(), Dropped);
}

/// H8: an agent that does not stop, with text that was not sent.
#[test]
fn queued_text_can_be_taken_back_from_an_agent_that_does_not_stop() {
    let (release, released) = bounded::<()>(0);
    let (began, begun) = bounded::<()>(1);
    let stuck = tool("stuck", move || {
        began.send(()).unwrap();
        let _ = released.recv_timeout(LIMIT);
        String::new()
    });
    let stage = Stage::new([calls(&["stuck"])], vec![stuck]);
    let run = stage.agent.prompt("go").unwrap();
    begun.recv_timeout(LIMIT).unwrap();
    stage.agent.steer("do not lose me");
    run.abort();
    let queued = stage.agent.queued();
    let taken = stage.agent.remove(queued[0].id).unwrap();
    assert_eq!(taken.text(), "do not lose me");
    drop(release);
    finished(&run);
    assert!(!stage.transcript().contains("lose"), "{}", stage.transcript());
}
