//! Recordings: what a model said is played again as it was, and no key is in the file.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use steerage::{
    AbortController, AbortSignal, Agent, AgentOptions, Error, ErrorKind, Message, Model, Secret,
    StreamEvent, StreamFn, StreamOptions, StreamRequest, Tool,
    message::StopReason,
    provider::ProviderOptions,
    stream::{AssistantStream, ToolChoice},
    testing::{
        Answer, Recorder, Replay, Scripted,
        server::{Response, Server},
    },
};

use crate::{apis, chat::Folder};

/// A key, and enough of it that nobody wrote it by chance.
const KEY: &str = "sk+kept/8f3c1d7e5a9b2046==";
const TRACE: &str = "8f3c1d7e";

fn request(api: &str, base_url: &str) -> StreamRequest {
    let model = json!({"id": "m", "api": api, "provider": "p", "baseUrl": base_url, "maxTokens": 1000, "contextWindow": 10000});
    let model: Model = serde_json::from_value(model).unwrap();
    let mut request = StreamRequest::new(model, [Message::user("Hi")]);
    request.options.max_retries = Some(0);
    request
}

fn events(stream: &dyn StreamFn, request: &StreamRequest) -> Vec<StreamEvent> {
    stream.stream(request.clone(), &AbortSignal::never()).unwrap().collect()
}

/// What kinds of lines a recording has, in order.
fn kinds(file: &str) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let kinds = lines.map(|line| line.as_object().unwrap().keys().next_back().unwrap().clone());
    kinds.collect()
}

/// Keys come from everywhere, and the server repeats each of them wherever it can.
#[test]
fn each_api_is_recorded_and_replayed_without_the_keys() {
    for api in apis::ALL {
        let folder = Folder::new();
        let file = folder.file("recording.jsonl");
        let key = |place: &str| format!("{place}-{KEY}");
        let keys = ["provider", "query", "model", "header"].map(key).join(" ");
        let refused =
            json!({"error": {"message": format!("{keys} are blocked"), "code": key("provider")}});
        let hi = apis::hi(api).replacen("data: {", &format!("data: {{\"echo\":\"{keys}\","), 1);
        let server = Server::start([
            Response::events([hi]).header("x-echo", &*keys).header("set-cookie", key("cookie")),
            Response::json(401, refused.to_string()),
        ])
        .unwrap();
        let url = format!("{}/v1?api-key={}&x=1", server.url(), key("query"));
        let mut request = request(api, &url);
        let headers = json!({"x-team": "blue", "x-extra-token": key("model")});
        Arc::make_mut(&mut request.model).headers = headers.as_object().unwrap().clone();
        request.options.headers = vec![("x-own-key".to_owned(), Some(key("header")))];
        let options = ProviderOptions {
            api_key: Some(Secret::new(key("provider"))),
            ..ProviderOptions::default()
        };
        let recorder = Recorder::create(&file, apis::stream_fn(api, options)).unwrap();
        let said: Vec<_> = (0..2).map(|_| events(&recorder, &request)).collect();
        drop(server);
        assert!(matches!(said[0].last(), Some(StreamEvent::Done { .. })), "{api}: {said:?}");
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains(TRACE), "{api}: {text}");
        assert!(text.contains("\"echo\":\"*** *** *** ***\""), "{api}: {text}");
        let kinds = kinds(&file);
        for kind in ["recording", "request", "sent", "payload", "received", "frame", "event"] {
            assert!(kinds.iter().any(|it| it == kind), "{api} has no {kind}: {kinds:?}");
        }
        let replay = Replay::open(&file).unwrap();
        let replayed: Vec<_> = (0..2).map(|_| events(&replay, &request)).collect();
        assert_eq!(replayed, said, "{api}");
    }
}

/// The whole file of one exchange: what is in it is documented, and stays.
#[test]
fn the_format_is_as_documented() {
    let folder = Folder::new();
    let file = folder.file("recording.jsonl");
    let server = Server::answering(|_| Response::events([apis::hi("pi-messages")])).unwrap();
    let mut request = request("pi-messages", &server.url());
    let mut message = serde_json::to_value(Message::user("Hi")).unwrap();
    message["timestamp"] = 1.into();
    let messages: Vec<Message> = vec![serde_json::from_value(message).unwrap()];
    request = StreamRequest { model: request.model.clone(), ..request };
    request.transcript = StreamRequest::new(request.model.clone(), messages).transcript;
    request.options.temperature = Some(0.5);
    request.options.tool_choice = Some(ToolChoice::Tool("look".to_owned()));
    let stream = apis::stream_fn("pi-messages", ProviderOptions::default());
    events(&Recorder::create(&file, stream).unwrap(), &request);
    // Frames are read as far ahead as they have come.
    let order = ["recording", "request", "sent", "payload", "received", "frame", "event"];
    let text = fs::read_to_string(&file).unwrap();
    let mut lines: Vec<(usize, &str)> = kinds(&file)
        .iter()
        .map(|kind| order.iter().position(|it| it == kind).unwrap())
        .zip(text.lines())
        .collect();
    lines.sort_by_key(|it| it.0);
    let text: String = lines.iter().flat_map(|(_, line)| [line, "\n"]).collect();
    let port = server.address().port().to_string();
    let version = concat!("steerage/", env!("CARGO_PKG_VERSION"));
    let text = text.replace(&port, "PORT").replace(version, "VERSION");
    expect![[r#"
        {"recording":1}
        {"exchange":0,"request":{"model":{"id":"m","name":"","api":"pi-messages","provider":"p","baseUrl":"http://127.0.0.1:PORT","reasoning":false,"input":[],"cost":{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0},"contextWindow":10000,"maxTokens":1000},"messages":[{"role":"user","content":"Hi","timestamp":1}],"options":{"temperature":0.5,"toolChoice":{"tool":"look"},"maxRetries":0}}}
        {"exchange":0,"sent":{"method":"POST","url":"http://127.0.0.1:PORT/messages","headers":{"content-type":"application/json","accept":"text/event-stream","user-agent":"VERSION"}}}
        {"exchange":0,"payload":{"model":"m","context":{"messages":[{"role":"user","content":"Hi","timestamp":1}]},"options":{"temperature":0.5,"toolChoice":{"type":"function","function":{"name":"look"}}}}}
        {"exchange":0,"received":{"status":200,"headers":{"content-type":"text/event-stream","transfer-encoding":"chunked"}}}
        {"exchange":0,"frame":{"type":"text_start","contentIndex":0}}
        {"exchange":0,"frame":{"type":"text_delta","contentIndex":0,"delta":"Hi"}}
        {"exchange":0,"frame":{"type":"done","reason":"stop","usage":{"input":1,"output":1}}}
        {"exchange":0,"event":{"type":"start"}}
        {"exchange":0,"event":{"type":"text_start","contentIndex":0}}
        {"exchange":0,"event":{"type":"text_delta","contentIndex":0,"delta":"Hi"}}
        {"exchange":0,"event":{"type":"text_end","contentIndex":0}}
        {"exchange":0,"event":{"type":"info","usage":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}}
        {"exchange":0,"event":{"type":"done","reason":"stop"}}
    "#]].assert_eq(&text);
}

/// What a request that is not the recorded one is told.
#[track_caller]
fn check_difference(change: impl Fn(&mut StreamRequest), expected: Expect) {
    let folder = Folder::new();
    let file = folder.file("recording.jsonl");
    let model = Scripted::new(["one", "two"]);
    let mut request = StreamRequest::new(model.model(), conversation());
    request.options = StreamOptions {
        temperature: Some(0.5),
        sampling_params: json!({"top_k": 1}).as_object().cloned(),
        session_id: Some("s1".to_owned()),
        ..StreamOptions::default()
    };
    let stream: Arc<dyn StreamFn> = model.into();
    let said = events(&Recorder::create(&file, stream).unwrap(), &request);
    change(&mut request);
    let replay = Replay::open(&file).unwrap();
    let replayed = events(&replay, &request);
    let told = match &replayed[..] {
        [StreamEvent::Error { message, failure }] => {
            assert_eq!((failure.kind, replay.unused()), (ErrorKind::InvalidRequest, 1));
            let (_, difference) = message.split_once("(number 1): ").unwrap();
            assert!(message.contains("recording.jsonl"), "{message}");
            difference
        }
        _ => {
            assert_eq!((replayed, replay.unused()), (said, 0));
            "the same"
        }
    };
    expected.assert_eq(told);
}

fn conversation() -> Vec<Message> {
    let messages = json!([
        {"role": "system", "content": "Be brief.", "timestamp": 0, "toolsAdded": [
            {"name": "look", "description": "Looks", "parameters": {"type": "object"}},
        ]},
        {"role": "user", "content": "What is it?", "timestamp": 1},
        {"role": "assistant", "content": [
            {"type": "toolCall", "id": "c1", "name": "look", "arguments": {"at": 1}},
        ], "api": "x", "provider": "y", "model": "z", "usage": {}, "stopReason": "toolUse", "timestamp": 2},
        {"role": "toolResult", "toolCallId": "c1", "toolName": "look", "content": [{"type": "text", "text": "a cat"}],
            "isError": false, "timestamp": 3},
    ]);
    serde_json::from_value(messages).unwrap()
}

/// Changes a message as JSON.
fn edited(request: &mut StreamRequest, edit: impl Fn(&mut Value)) {
    let mut messages = serde_json::to_value(request.transcript.messages()).unwrap();
    edit(&mut messages);
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    request.transcript = StreamRequest::new(request.model.clone(), messages).transcript;
}

#[test]
fn what_is_different_each_time_is_not_compared() {
    check_difference(|_| (), expect!["the same"]);
    check_difference(
        |it| {
            edited(it, |it| {
                it.as_array_mut().unwrap().iter_mut().for_each(|it| it["timestamp"] = 99.into());
            });
        },
        expect!["the same"],
    );
    check_difference(|it| it.options.session_id = Some("s2".to_owned()), expect!["the same"]);
    check_difference(|it| it.options.api_key = Some(Secret::new(KEY)), expect!["the same"]);
    check_difference(|it| it.options.max_retries = Some(7), expect!["the same"]);
    let url = "http://elsewhere".to_owned();
    check_difference(
        |it| Arc::make_mut(&mut it.model).base_url.clone_from(&url),
        expect!["the same"],
    );
}

#[test]
fn another_request_is_told_where_it_differs() {
    check_difference(
        |it| Arc::make_mut(&mut it.model).id.push('x'),
        expect![[r#"model.id was "scripted-1" there and is "scripted-1x" here"#]],
    );
    check_difference(
        |it| edited(it, |it| it[1]["content"] = "What is that?".into()),
        expect![[r#"messages[1].content was "What is it?" there and is "What is that?" here"#]],
    );
    check_difference(
        |it| edited(it, |it| it[2]["content"][0]["arguments"]["at"] = 2.into()),
        expect!["messages[2].content[0].arguments.at was 1 there and is 2 here"],
    );
    check_difference(
        |it| edited(it, |it| it[0]["toolsAdded"][0]["parameters"]["x"] = "long ".repeat(99).into()),
        expect![[
            r#"messages[0].toolsAdded[0].parameters.x was nothing there and is "long long long long long long long long long long long long long long long long long long long long long long long long… here"#
        ]],
    );
    check_difference(
        |it| edited(it, |it| _ = it.as_array_mut().unwrap().pop()),
        expect![[
            r#"messages[3] was {"role":"toolResult","toolCallId":"c1","toolName":"look","content":[{"type":"text","text":"a cat"}],"isError":false,"tim… there and is nothing here"#
        ]],
    );
    check_difference(
        |it| {
            edited(it, |it| {
                it.as_array_mut().unwrap().push(json!({"role": "user", "content": "more"}));
            });
        },
        expect![[
            r#"messages[4] was nothing there and is {"role":"user","content":"more","timestamp":0} here"#
        ]],
    );
    check_difference(
        |it| it.options.temperature = None,
        expect!["options.temperature was 0.5 there and is nothing here"],
    );
    check_difference(
        |it| it.options.sampling_params = json!({"top_k": 2}).as_object().cloned(),
        expect!["options.samplingParams.top_k was 1 there and is 2 here"],
    );
    check_difference(
        |it| it.options.tool_choice = Some(ToolChoice::Any),
        expect![[r#"options.toolChoice was nothing there and is "any" here"#]],
    );
}

/// A key in the conversation is not in the file, and the replay does not mind which one it was.
#[test]
fn a_key_in_the_conversation_is_taken_out_and_fits_any_other() {
    let folder = Folder::new();
    let file = folder.file("recording.jsonl");
    let model = Scripted::new([format!("it is {KEY}")]);
    let with =
        |key: &str| StreamRequest::new(model.model(), [Message::user(format!("my key: {key}!"))]);
    let stream: Arc<dyn StreamFn> = model.clone().into();
    let recorder = Recorder::create(&file, stream).unwrap().with_secrets([Secret::new(KEY)]);
    events(&recorder, &with(KEY));
    assert!(!fs::read_to_string(&file).unwrap().contains(TRACE));
    let replay = |request: &StreamRequest| {
        let events = events(&Replay::open(&file).unwrap(), request);
        matches!(events.last(), Some(StreamEvent::Done { .. }))
    };
    assert!(replay(&with(KEY)) && replay(&with("another")));
    assert!(!replay(&StreamRequest::new(model.model(), [Message::user("my key: x?")])));
}

/// A stream function of one's own tells nothing of its keys: those of the request are known all the same.
#[test]
fn keys_of_the_request_are_taken_out_whoever_is_asked() {
    let folder = Folder::new();
    let file = folder.file("recording.jsonl");
    let key = |place: &str| format!("{place}-{KEY}");
    let keys = ["asked", "query", "model", "header", "variable"].map(key).join(" ");
    let model = Scripted::new([&*keys]);
    let mut request = StreamRequest::new(model.model(), [Message::user(&*keys)]);
    let asked = Arc::make_mut(&mut request.model);
    asked.base_url = format!("http://x/?token={}", key("query"));
    let headers = json!({"x-team": "blue", "x-key": key("model"), "x-small-key": "pin 7"});
    asked.headers = headers.as_object().unwrap().clone();
    request.options.api_key = Some(Secret::new(key("asked")));
    request.options.headers = vec![
        ("Authorization".to_owned(), Some(format!("Bearer {}", key("header")))),
        ("x-tiny-key".to_owned(), Some("pin 8".to_owned())),
    ];
    request.options.env = vec![("SOME_API_KEY".to_owned(), key("variable"))];
    events(&Recorder::create(&file, model).unwrap(), &request);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains(TRACE) && !text.contains("pin "), "{text}");
    assert!(text.contains("*** *** *** *** ***") && text.contains("blue"), "{text}");
}

#[test]
fn an_agent_with_tools_runs_again_without_a_model() {
    let folder = Folder::new();
    let file = folder.file("recording.jsonl");
    let model = Scripted::new([
        Answer::new().thinking("hm").text("Let me look.").tool_call("look", json!({"at": "sky"})),
        Answer::from("It is blue."),
    ]);
    let run = |stream: Arc<dyn StreamFn>| {
        let parameters = json!({"type": "object", "properties": {"at": {"type": "string"}}});
        let look = Tool::with_schema("look", "Looks", parameters, |it, _| {
            Ok(format!("{} is blue", it["at"]))
        });
        let options =
            AgentOptions { stream: Some(stream), tools: vec![look], ..AgentOptions::default() };
        let agent = Agent::new(model.model(), options).unwrap();
        let text = agent.prompt("What colour is the sky?").unwrap().wait().map(|it| it.text);
        (text.map_err(|error| error.kind()), agent.messages().len())
    };
    let said = run(Recorder::create(&file, model.clone()).unwrap().into());
    assert_eq!(said, (Ok("It is blue.".to_owned()), 5));
    let replay = Replay::open(&file).unwrap();
    assert_eq!(run(replay.clone().into()), said);
    assert_eq!((replay.unused(), model.requests().len()), (0, 2));
    // A third request was never made.
    let (text, _) = run(replay.into());
    assert_eq!(text, Err(ErrorKind::InvalidRequest));
}

/// Of requests at the same time it is chance which one begins first.
#[test]
fn requests_take_their_own_exchanges_in_any_order() {
    let folder = Folder::new();
    let file = folder.file("recording.jsonl");
    let model = Scripted::new(["one", "two", "three"]);
    let ask = |text: &str| StreamRequest::new(model.model(), [Message::user(text)]);
    let recorder = Recorder::create(&file, model.clone()).unwrap();
    let said: Vec<_> = ["a", "b", "a"].map(|it| events(&recorder, &ask(it))).into();
    let replay = Replay::open(&file).unwrap();
    let replayed = ["b", "a", "a"].map(|it| events(&replay, &ask(it)));
    assert_eq!(replayed, [said[1].clone(), said[0].clone(), said[2].clone()]);
}

#[test]
fn failures_aborts_and_answers_that_nobody_read_are_recorded_too() {
    let folder = Folder::new();
    let file = folder.file("recording.jsonl");
    let asked = Mutex::new(0);
    let controller = AbortController::new();
    let stream =
        move |_: StreamRequest, _: &AbortSignal| -> Result<Box<dyn AssistantStream>, Error> {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            match *asked {
                1 => Err(Error::new(ErrorKind::Quota, "no money")),
                _ => Ok(Box::new(
                    vec![StreamEvent::Start, StreamEvent::Done { reason: StopReason::Stop }]
                        .into_iter(),
                )),
            }
        };
    let stream: Arc<dyn StreamFn> = Arc::new(stream);
    let recorder = Recorder::create(&file, stream).unwrap();
    let request = StreamRequest::new(Scripted::new(["x"]).model(), [Message::user("Hi")]);
    let quota = |stream: &dyn StreamFn| {
        let error = stream.stream(request.clone(), &AbortSignal::never()).err().unwrap();
        (error.kind(), error.to_string())
    };
    let begun = |stream: &dyn StreamFn| {
        let mut stream = stream.stream(request.clone(), &AbortSignal::never()).unwrap();
        stream.next()
    };
    assert_eq!(quota(&recorder), (ErrorKind::Quota, "no money".to_owned()));
    assert_eq!(begun(&recorder), Some(StreamEvent::Start));
    drop(recorder.stream(request.clone(), &AbortSignal::never()));
    assert_eq!(kinds(&file), ["recording", "request", "refused", "request", "event", "request"]);
    let replay = Replay::open(&file).unwrap();
    assert_eq!(quota(&replay), quota(&Replay::open(&file).unwrap()));
    let replayed = events(&replay, &request);
    assert_eq!(replayed[0], StreamEvent::Start);
    let StreamEvent::Error { message, .. } = &replayed[1] else { panic!("{replayed:?}") };
    assert!(message.contains("was not read on"), "{message}");
    controller.abort();
    let aborted = replay.stream(request.clone(), &controller.signal()).unwrap();
    assert_eq!(aborted.collect::<Vec<_>>(), [StreamEvent::aborted()]);
    assert_eq!(replay.unused(), 0);
}

/// Hooks of the host still see everything, and what they change is what is recorded.
#[test]
fn hooks_of_the_host_are_called_all_the_same() {
    let folder = Folder::new();
    let file = folder.file("recording.jsonl");
    let server = Server::start([Response::events([apis::hi("openai-completions")])]).unwrap();
    let mut request = request("openai-completions", &server.url());
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = |what: &'static str| {
        let seen = seen.clone();
        move || seen.lock().unwrap().push(what.to_owned())
    };
    let hooks = &mut request.options.hooks;
    let (on_request, on_payload) = (note("request"), note("payload"));
    let (on_response, on_event) = (note("response"), note("event"));
    hooks.on_request = Some(Arc::new(move |_, _| {
        on_request();
        Ok(())
    }));
    hooks.on_payload = Some(Arc::new(move |payload, _| {
        on_payload();
        let mut changed = payload.clone();
        changed["user"] = "changed".into();
        Ok(Some(changed))
    }));
    hooks.on_response = Some(Arc::new(move |_, _| {
        on_response();
        Ok(())
    }));
    hooks.on_provider_stream_event = Some(Arc::new(move |_, _| {
        on_event();
        Ok(())
    }));
    let stream = apis::stream_fn("openai-completions", ProviderOptions::default());
    events(&Recorder::create(&file, stream).unwrap(), &request);
    assert_eq!(*seen.lock().unwrap(), ["request", "payload", "response", "event"]);
    assert!(server.requests()[0].text().contains("\"user\":\"changed\""));
    assert!(fs::read_to_string(&file).unwrap().contains("\"user\":\"changed\""));
}

/// What is said of a file that is no recording.
#[track_caller]
fn check_file(text: &str, expected: Expect) {
    let folder = Folder::new();
    let file = folder.file("recording.jsonl");
    fs::write(&file, text).unwrap();
    let told = match Replay::open(&file) {
        Ok(replay) => format!("{} exchanges", replay.unused()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Configuration);
            error.to_string().replace(&file, "FILE")
        }
    };
    expected.assert_eq(&told);
}

#[test]
fn files_that_are_no_recordings_are_told_by_their_lines() {
    check_file("", expect!["the recording FILE is empty"]);
    check_file("{\"recording\":1}\n", expect!["0 exchanges"]);
    check_file(
        "{\"recording\":9}\n",
        expect!["line 1 of the recording FILE cannot be read: the version 9 is not known"],
    );
    check_file(
        "{\"role\":\"user\"}\n",
        expect!["line 1 of the recording FILE cannot be read: it is no recording"],
    );
    check_file(
        "hello\n",
        expect!["line 1 of the recording FILE cannot be read: expected value at line 1 column 1"],
    );
    check_file(
        "{\"recording\":1}\n{\"event\":{\"type\":\"start\"}}\n",
        expect!["line 2 of the recording FILE cannot be read: it belongs to no exchange"],
    );
    check_file(
        "{\"recording\":1}\n{\"exchange\":0,\"event\":{\"type\":\"strat\"}}\n",
        expect![
            "line 2 of the recording FILE cannot be read: unknown variant `strat`, expected one of `start`, `text_start`, `initial_text`, `text_delta`, `text_end`, `thinking_start`, `thinking_delta`, `thinking_end`, `toolcall_start`, `toolcall_delta`, `toolcall_end`, `info`, `signature`, `done`, `error` at line 1 column 37"
        ],
    );
    check_file(
        "{\"recording\":1}\n{\"exchange\":99999999999,\"event\":{\"type\":\"start\"}}\n",
        expect!["line 2 of the recording FILE cannot be read: it belongs to no exchange"],
    );
    // A process that is ended may leave half a line.
    check_file(
        "{\"recording\":1}\n{\"exchange\":0,\"request\":{}}\n{\"exchange\":0,\"ev",
        expect!["1 exchanges"],
    );
    // Later versions may say more.
    check_file(
        "{\"recording\":1,\"by\":\"x\"}\n{\"exchange\":0,\"note\":1}\n",
        expect!["1 exchanges"],
    );
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    let error = Recorder::create(folder.file("no/such/folder"), Scripted::new(["x"])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("cannot be written"), "{error}");
    let error = Replay::open(folder.file("nothing")).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
    #[cfg(target_os = "linux")]
    {
        let error = Recorder::create("/dev/full", Scripted::new(["x"])).unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }
}
