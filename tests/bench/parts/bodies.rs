//! Bodies of requests: the first of a conversation, and the next with what was kept.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use steerage::{
    AbortSignal, Error, ErrorKind, Message, Model, StreamFn, StreamOptions, StreamRequest,
    Transcript,
    provider::{
        ProviderOptions, anthropic::AnthropicMessages, openai_completions::OpenAiCompletions,
        openai_responses::OpenAiResponses,
    },
    stream::{RequestHooks, RequestMemo},
};

use crate::{
    cost::{cost, cost_of, head, line},
    numbers::exponent,
    sample,
};

/// How many turns follow, each with a request.
const NEXT: usize = 50;

pub(crate) fn print() {
    head("Bodies of a conversation of 1,000 messages", "µs", "by hand");
    for (api, provider) in providers() {
        let model = Arc::new(sample::model(api));
        let messages = sample::conversation(api, 1000);
        let payload = payload(&*provider, &model, &messages);
        let bytes = serde_json::to_vec(&payload).expect("JSON");
        let first = cost(|| build(&*provider, &model, &messages, RequestMemo::default()));
        let floor = cost(|| serde_json::to_vec(&payload));
        line(&format!("{api}: the first; by hand a tree written as JSON"), first, Some(floor));
        let next = next(&*provider, &model, &messages);
        line(
            &format!("{api}: the next; by hand a copy of its bytes"),
            next,
            Some(cost(|| bytes.clone())),
        );
    }
    for (api, provider) in providers() {
        let model = Arc::new(sample::model(api));
        let (ours, copies): (Vec<_>, Vec<_>) = [1000_u32, 4000, 16_000]
            .iter()
            .map(|size| {
                let messages = sample::conversation(api, *size as usize);
                let bytes = serde_json::to_vec(&payload(&*provider, &model, &messages));
                let (bytes, size) = (bytes.expect("JSON"), f64::from(*size));
                let copy = cost(|| bytes.clone());
                ((size, next(&*provider, &model, &messages)), (size, copy))
            })
            .unzip();
        line(
            &format!("{api}: exponent of the next over the length"),
            exponent(&ours),
            Some(exponent(&copies)),
        );
    }
}

fn providers() -> [(&'static str, Arc<dyn StreamFn>); 3] {
    let options = ProviderOptions { api_key: Some("k".into()), ..ProviderOptions::default() };
    [
        ("anthropic-messages", Arc::new(AnthropicMessages::new(options.clone()))),
        ("openai-completions", Arc::new(OpenAiCompletions::new(options.clone()))),
        ("openai-responses", Arc::new(OpenAiResponses::new(options))),
    ]
}

/// Builds the body. It is sent when the first event is asked for, which nobody does.
fn build(
    provider: &dyn StreamFn,
    model: &Arc<Model>,
    messages: &[Arc<Message>],
    memo: RequestMemo,
) {
    let transcript = Transcript::new(messages).with_memo(memo);
    let options = StreamOptions::default();
    let request = StreamRequest { model: model.clone(), transcript, options };
    drop(provider.stream(request, &AbortSignal::never()).expect("a stream"));
}

/// What one of the next requests takes.
fn next(provider: &dyn StreamFn, model: &Arc<Model>, messages: &[Arc<Message>]) -> f64 {
    let turns: Vec<_> = (0..NEXT)
        .map(|turn| sample::turn_of(&model.api, messages.len() + turn).map(sample::message))
        .collect();
    let first = || {
        let memo = RequestMemo::default();
        build(provider, model, messages, memo.clone());
        (messages.to_vec(), memo)
    };
    let total = cost_of(first, |(mut messages, memo)| {
        for turn in &turns {
            messages.extend(turn.iter().cloned());
            build(provider, model, &messages, memo.clone());
        }
    });
    total / f64::from(u32::try_from(NEXT).expect("a small number"))
}

/// The body as a tree, which a hook sees that keeps it from being sent.
fn payload(provider: &dyn StreamFn, model: &Arc<Model>, messages: &[Arc<Message>]) -> Value {
    let seen = Arc::new(Mutex::new(Value::Null));
    let keep = seen.clone();
    let hook = move |payload: &Value, _: &Model| {
        *keep.lock().expect("no panic") = payload.clone();
        Err(Error::new(ErrorKind::Callback, "not sent"))
    };
    let hooks = RequestHooks { on_payload: Some(Arc::new(hook)), ..RequestHooks::default() };
    let options = StreamOptions { hooks, ..StreamOptions::default() };
    let transcript = Transcript::new(messages);
    let request = StreamRequest { model: model.clone(), transcript, options };
    provider.stream(request, &AbortSignal::never()).expect("a stream").count();
    let seen = seen.lock().expect("no panic");
    assert!(seen.is_object());
    seen.clone()
}
