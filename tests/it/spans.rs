//! Spans of `tracing`: what an agent does, each within what caused it, on whatever threads; and nothing of what was said.

use std::{iter, sync::Arc, thread};

use expect_test::{Expect, expect};
use serde_json::json;
use steerage::{
    AbortSignal, Agent, AgentEvent, AgentOptions, Error, ErrorKind, Failure, Message, Model,
    Models, StreamEvent, StreamFn, StreamOptions, StreamRequest, Tool,
    agent_loop::{LoopConfig, LoopContext, agent_loop},
    agent_tool,
    message::StopReason,
    models::Provider,
    provider::ProviderOptions,
    stream::{AssistantStream, collect},
    testing::{
        Answer, Scripted,
        server::{Response, Server},
    },
};
use tracing::{Span, info_span};

use crate::{
    apis,
    subscriber::{self, Kept},
};

/// What is said; it is in no span.
const SAID: &str = "word-for-word";

/// Runs something within a span of its own, and shows those below it.
fn below(run: impl FnOnce(), show: impl Fn(&Kept) -> String) -> String {
    subscriber::install();
    let host = info_span!("host");
    host.in_scope(run);
    let whole = subscriber::tree(&host, |kept| format!("{:?}", kept.fields));
    assert!(!whole.contains(SAID), "{whole}");
    subscriber::tree(&host, show)
}

/// The spans with all of their fields.
#[track_caller]
fn check_whole(run: impl FnOnce(), expected: Expect) {
    let show = |kept: &Kept| {
        let fields = kept.fields.iter().map(|(name, value)| format!("{name}={value}"));
        iter::once(kept.name.to_owned()).chain(fields).collect::<Vec<_>>().join(" ")
    };
    expected.assert_eq(&below(run, show));
}

/// The spans by name, with the tool or model and the failure.
#[track_caller]
fn check(run: impl FnOnce(), expected: Expect) {
    let show = |kept: &Kept| {
        let wanted =
            ["gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.request.model", "error.type"];
        let fields = kept.fields.iter().filter(|(name, _)| wanted.contains(name));
        let words = fields.map(|(_, value)| &**value);
        iter::once(kept.name).chain(words).collect::<Vec<_>>().join(" ")
    };
    expected.assert_eq(&below(run, show));
}

fn schema() -> serde_json::Value {
    json!({"type": "object", "properties": {"text": {"type": "string"}}})
}

fn say() -> Tool {
    Tool::with_schema("say", SAID, schema(), |_, _| Ok(SAID))
}

fn agent(model: &Scripted, tools: Vec<Tool>) -> Agent {
    let request = StreamOptions {
        session_id: Some("s1".to_owned()),
        temperature: Some(0.5),
        max_tokens: Some(99),
        ..StreamOptions::default()
    };
    let options = AgentOptions {
        stream: Some(model.clone().into()),
        system_prompt: SAID.to_owned(),
        tools,
        request,
        ..AgentOptions::default()
    };
    Agent::new(model.model(), options).unwrap()
}

fn calling(tool: &str) -> Answer {
    Answer::new().thinking(SAID).text(SAID).tool_call_with_id("c1", tool, json!({"text": SAID}))
}

#[test]
fn a_run_is_a_span_with_its_requests_and_tools_in_it() {
    let model = Scripted::new([calling("say"), Answer::from(SAID)]);
    check_whole(
        || _ = agent(&model, vec![say()]).prompt(SAID).unwrap().wait().unwrap(),
        expect![[r#"
            invoke_agent otel.kind="internal" gen_ai.operation.name="invoke_agent" gen_ai.provider.name="scripted" gen_ai.request.model="scripted-1" gen_ai.conversation.id="s1" gen_ai.usage.input_tokens=81 gen_ai.usage.output_tokens=18
              chat otel.name="chat scripted-1" otel.kind="client" gen_ai.operation.name="chat" gen_ai.provider.name="scripted" gen_ai.request.model="scripted-1" gen_ai.request.max_tokens=99 gen_ai.request.temperature=0.5 gen_ai.conversation.id="s1" gen_ai.usage.input_tokens=29 gen_ai.usage.output_tokens=14 gen_ai.usage.cache_creation.input_tokens=29 gen_ai.response.finish_reasons=["tool_call"]
              execute_tool otel.name="execute_tool say" otel.kind="internal" gen_ai.operation.name="execute_tool" gen_ai.tool.name="say" gen_ai.tool.call.id="c1" gen_ai.tool.type="function"
              chat otel.name="chat scripted-1" otel.kind="client" gen_ai.operation.name="chat" gen_ai.provider.name="scripted" gen_ai.request.model="scripted-1" gen_ai.request.max_tokens=99 gen_ai.request.temperature=0.5 gen_ai.conversation.id="s1" gen_ai.usage.input_tokens=52 gen_ai.usage.output_tokens=4 gen_ai.usage.cache_read.input_tokens=29 gen_ai.usage.cache_creation.input_tokens=23 gen_ai.response.finish_reasons=["stop"]
        "#]],
    );
}

#[test]
fn failures_are_told_by_their_kind() {
    let failing = Tool::with_schema("fail", "", schema(), |_, _| Err::<String, _>(SAID.into()));
    let panicking =
        Tool::with_schema("panic", "", schema(), |_, _| -> Result<String, _> { panic!("{SAID}") });
    let model = Scripted::new([
        calling("fail"),
        calling("panic"),
        // It never runs.
        calling("nowhere"),
        Answer::new().text(SAID).fails(ErrorKind::RateLimited, SAID),
    ]);
    check(
        || _ = agent(&model, vec![failing, panicking]).prompt(SAID).unwrap().wait().unwrap_err(),
        expect![[r#"
            invoke_agent "scripted-1" "rateLimited"
              chat "scripted-1"
              execute_tool "fail" "c1" "tool"
              chat "scripted-1"
              execute_tool "panic" "c1" "tool"
              chat "scripted-1"
              chat "scripted-1" "rateLimited"
        "#]],
    );
}

#[test]
fn a_run_that_breaks_or_is_aborted_says_so() {
    check(
        || _ = agent(&Scripted::new([""; 0]), Vec::new()).prompt(SAID).unwrap().wait(),
        expect![[r#"
            invoke_agent "scripted-1" "configuration"
              chat "scripted-1" "configuration"
        "#]],
    );
    let model = Scripted::new([calling("stop")]);
    check(
        || {
            let stop = Tool::with_schema("stop", "", schema(), |_, call| {
                call.signal().wait();
                Ok("stopped")
            });
            let agent = agent(&model, vec![stop]);
            let aborting = agent.clone();
            let _subscription = agent.subscribe(move |event, _| {
                if let AgentEvent::ToolExecutionStart { .. } = event {
                    aborting.abort();
                }
                Ok(())
            });
            let _ = agent.prompt(SAID).unwrap().wait();
        },
        expect![[r#"
            invoke_agent "scripted-1" "aborted"
              chat "scripted-1"
        "#]],
    );
}

#[test]
fn an_agent_in_a_tool_is_within_that_tool() {
    let inner = Scripted::new([calling("say"), Answer::from(SAID)]);
    let below = AgentOptions {
        stream: Some(inner.clone().into()),
        tools: vec![say()],
        ..AgentOptions::default()
    };
    let research = agent_tool("research", SAID, inner.model(), below).unwrap();
    let outer = Scripted::new([
        Answer::new().tool_call_with_id("c0", "research", json!({"prompt": SAID})),
        Answer::from(SAID),
    ]);
    check(
        || _ = agent(&outer, vec![research]).prompt(SAID).unwrap().wait().unwrap(),
        expect![[r#"
            invoke_agent "scripted-1"
              chat "scripted-1"
              execute_tool "research" "c0"
                invoke_agent "scripted-1"
                  chat "scripted-1"
                  execute_tool "say" "c1"
                  chat "scripted-1"
              chat "scripted-1"
        "#]],
    );
}

/// On the tool's own thread and on threads that it starts, to any depth.
#[test]
fn calls_of_tools_are_within_the_tool_that_makes_them() {
    let here = Tool::with_schema("here", "", schema(), |arguments, call| {
        Ok(call.run_tool("say", arguments).result)
    });
    let elsewhere = Tool::with_schema("elsewhere", "", schema(), |arguments, call| {
        let result = thread::scope(|scope| scope.spawn(|| call.run_tool("here", arguments)).join());
        Ok(result.unwrap().result)
    });
    let model = Scripted::new([calling("elsewhere"), Answer::from(SAID)]);
    check(
        || _ = agent(&model, vec![say(), here, elsewhere]).prompt(SAID).unwrap().wait().unwrap(),
        expect![[r#"
            invoke_agent "scripted-1"
              chat "scripted-1"
              execute_tool "elsewhere" "c1"
                execute_tool "here" "c1/here"
                  execute_tool "say" "c1/here/say"
              chat "scripted-1"
        "#]],
    );
}

#[test]
fn calls_at_the_same_time_are_beside_each_other() {
    let calls = Answer::new()
        .tool_call_with_id("c1", "say", json!({}))
        .tool_call_with_id("c2", "say", json!({}))
        .tool_call_with_id("c3", "say", json!({}));
    let model = Scripted::new([calls, Answer::from(SAID)]);
    let show = |kept: &Kept| kept.name.to_owned();
    let shown =
        below(|| _ = agent(&model, vec![say()]).prompt(SAID).unwrap().wait().unwrap(), show);
    expect![[r#"
        invoke_agent
          chat
          execute_tool
          execute_tool
          execute_tool
          chat
    "#]]
    .assert_eq(&shown);
}

/// What a listener does belongs to what it is told of.
#[test]
fn spans_of_listeners_and_hooks_are_within_the_run() {
    let model = Scripted::new([calling("say"), Answer::from(SAID)]);
    check(
        || {
            let agent = agent(&model, vec![say()]);
            let configured = agent.configure(|options| {
                options.hooks.before_tool_call = Some(Arc::new(|_, _| {
                    info_span!("hook").in_scope(|| Ok(steerage::ToolDecision::Allow))
                }));
            });
            configured.unwrap();
            let _subscription = agent.subscribe(|event, _| {
                let told =
                    |name: &'static str| drop(info_span!("listener", gen_ai.tool.name = name));
                match event {
                    AgentEvent::MessageUpdate { event: StreamEvent::TextStart { .. }, .. } => {
                        told("text");
                    }
                    AgentEvent::ToolExecutionEnd { .. } => told("tool end"),
                    AgentEvent::AgentEnd { .. } => told("end"),
                    _ => (),
                }
                Ok(())
            });
            agent.prompt(SAID).unwrap().wait().unwrap();
        },
        expect![[r#"
            invoke_agent "scripted-1"
              chat "scripted-1"
                listener "text"
              hook
              execute_tool "say" "c1"
              listener "tool end"
              chat "scripted-1"
                listener "text"
              listener "end"
        "#]],
    );
}

#[test]
fn the_low_level_loop_has_the_same_spans() {
    let model = Scripted::new([calling("say"), Answer::from(SAID)]);
    let config = LoopConfig::new(model.model(), Arc::new(model));
    let context = LoopContext { messages: Vec::new(), tools: vec![say()] };
    check(
        || {
            let sink = &mut |_: AgentEvent| Ok(());
            let prompts = vec![Message::user(SAID)];
            agent_loop(prompts, context, &config, &AbortSignal::never(), sink).unwrap();
        },
        expect![[r#"
            invoke_agent "scripted-1"
              chat "scripted-1"
              execute_tool "say" "c1"
              chat "scripted-1"
        "#]],
    );
}

/// `Models` with a provider that is not asked over the network.
fn models(stream: impl StreamFn + 'static) -> Models {
    let models = Models::new();
    let model = Model {
        id: "small".to_owned(),
        provider: "google-vertex-like".to_owned(),
        base_url: "https://me:secret@vendor.example:8443/v1?key=secret".to_owned(),
        ..Model::default()
    };
    models.add(Provider {
        models: vec![model],
        stream: Some(Arc::new(stream)),
        ..Provider::new("google-vertex-like", "https://vendor.example")
    });
    models
}

fn answering() -> impl StreamFn {
    let usage = json!({"input": 10, "output": 7, "cacheRead": 4, "cacheWrite": 2, "reasoning": 3, "totalTokens": 23});
    let info = steerage::stream::ResponseInfo {
        response_id: Some("r1".to_owned()),
        response_model: Some("small-2026".to_owned()),
        usage: Some(serde_json::from_value(usage).unwrap()),
        ..steerage::stream::ResponseInfo::default()
    };
    let done = StreamEvent::Done { reason: StopReason::Length };
    let events = vec![StreamEvent::Start, StreamEvent::Info(Box::new(info)), done];
    move |_: StreamRequest, _: &AbortSignal| -> Result<Box<dyn AssistantStream>, Error> {
        Ok(Box::new(events.clone().into_iter()))
    }
}

#[test]
fn a_request_without_a_run_is_a_span_too() {
    let ask = |models: &Models| {
        let model = models.get("google-vertex-like", "small").unwrap();
        let request = StreamRequest::new(model.clone(), [Message::user(SAID)]);
        let mut stream = models.stream(request, &AbortSignal::never()).unwrap();
        collect(&model, &mut *stream)
    };
    check_whole(
        || _ = ask(&models(answering())),
        expect![[r#"
        chat otel.name="chat small" otel.kind="client" gen_ai.operation.name="chat" gen_ai.provider.name="google-vertex-like" gen_ai.request.model="small" server.address="vendor.example" gen_ai.response.id="r1" gen_ai.response.model="small-2026" gen_ai.usage.input_tokens=16 gen_ai.usage.output_tokens=7 gen_ai.usage.cache_read.input_tokens=4 gen_ai.usage.cache_creation.input_tokens=2 gen_ai.usage.reasoning.output_tokens=3 gen_ai.response.finish_reasons=["length"]
    "#]],
    );
    let failing = |_: StreamRequest, _: &AbortSignal| -> Result<Box<dyn AssistantStream>, Error> {
        let failure = Failure { status: Some(429), ..Failure::new(ErrorKind::RateLimited) };
        let failed = StreamEvent::failed(&Error::from_failure(failure, SAID));
        Ok(Box::new(vec![failed].into_iter()))
    };
    check(
        || _ = ask(&models(failing)),
        expect![[r#"
        chat "small" "rateLimited"
    "#]],
    );
}

#[test]
fn each_provider_has_the_span_of_its_requests() {
    for api in apis::with_proxy() {
        let answer = Response::events([apis::hi(api)]);
        let server = Server::start([answer.clone(), answer, Response::json(429, "{}")]).unwrap();
        let model = json!({"id": "m", "api": api, "provider": "p", "baseUrl": server.url()});
        let model: Model = serde_json::from_value(model).unwrap();
        let mut request = StreamRequest::new(model.clone(), [Message::user(SAID)]);
        request.options.api_key = Some("sk-of-nobody".into());
        request.options.max_retries = Some(0);
        let stream = apis::stream_fn(api, ProviderOptions::default());
        let ask = |stream: &dyn StreamFn| {
            let mut stream = stream.stream(request.clone(), &AbortSignal::never()).unwrap();
            _ = collect(&model, &mut *stream);
        };
        let models = Models::new();
        models.set_api(api, stream.clone());
        check(
            || ask(&*stream),
            expect![[r#"
            chat "m"
        "#]],
        );
        check(
            || ask(&models),
            expect![[r#"
            chat "m"
        "#]],
        );
        check(
            || ask(&*stream),
            expect![[r#"
            chat "m" "rateLimited"
        "#]],
        );
    }
}

#[test]
fn a_request_of_a_run_is_one_span_whoever_is_asked() {
    let models = models(answering());
    let model = models.get("google-vertex-like", "small").unwrap();
    let options = AgentOptions { stream: Some(models.into()), ..AgentOptions::default() };
    let agent = Agent::new(model, options).unwrap();
    check(
        || _ = agent.prompt(SAID).unwrap().wait(),
        expect![[r#"
        invoke_agent "small"
          chat "small"
    "#]],
    );
}

/// The host's own span is left as it was.
#[test]
fn nothing_stays_entered() {
    subscriber::install();
    let host = info_span!("host");
    host.in_scope(|| {
        let model = Scripted::new([calling("say"), Answer::from(SAID)]);
        agent(&model, vec![say()]).prompt(SAID).unwrap().wait().unwrap();
        let model = Scripted::new([calling("say"), Answer::from(SAID)]);
        let config = LoopConfig::new(model.model(), Arc::new(model));
        let sink = &mut |_: AgentEvent| Ok(());
        agent_loop(
            vec![Message::user(SAID)],
            LoopContext::default(),
            &config,
            &AbortSignal::never(),
            sink,
        )
        .unwrap();
        assert_eq!(Span::current().id(), host.id());
    });
    assert!(Span::current().id().is_none());
}

#[cfg(feature = "codemode")]
#[test]
fn calls_of_a_script_are_within_the_tool_that_runs_it() {
    let model = Scripted::new([
        Answer::new().tool_call_with_id(
            "c1",
            "codemode",
            json!({"code": "return await Promise.all([tools.say({}), tools.say({})])"}),
        ),
        Answer::from(SAID),
    ]);
    let code = steerage::codemode::tool([say()]);
    let show = |kept: &Kept| kept.name.to_owned();
    let shown = below(|| _ = agent(&model, vec![code]).prompt(SAID).unwrap().wait().unwrap(), show);
    expect![[r#"
        invoke_agent
          chat
          execute_tool
            execute_tool
            execute_tool
          chat
    "#]]
    .assert_eq(&shown);
}
