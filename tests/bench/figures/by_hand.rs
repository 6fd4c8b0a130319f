//! The floor: the same work on ureq and serde_json by hand, for this one server.
//!
//! It has no agent, no events, no messages, no retries and one kind of error; the body grows by what is new. What a crate
//! on the same HTTP client does beside its work shows in the difference.

use std::{
    borrow::Cow,
    io::{self, Read, Write},
    sync::mpsc,
    thread,
};

use memchr::memchr;
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::json;

use crate::{
    child::{ABORTS, Failure, Mode, PROMPT, SILENCE, SYSTEM, TALLY, Task},
    clock::{self, pause},
};

pub(crate) fn run(task: &Task, has_hop: bool) -> Result<(), Failure> {
    match task.mode {
        Mode::Run | Mode::Delay if has_hop => Conversation::new(task).prompt_with_hop(),
        Mode::Run | Mode::Delay => Conversation::new(task).prompt(),
        Mode::Parallel(count) => thread::scope(|scope| {
            let start = |_| scope.spawn(|| Conversation::new(task).prompt());
            let threads: Vec<_> = (0..count).map(start).collect();
            threads.into_iter().try_for_each(|it| it.join().expect("no panic"))
        }),
        Mode::Abort => {
            (0..ABORTS).for_each(|_| Conversation::new(task).abort());
            Ok(())
        }
    }
}

struct Conversation {
    http: ureq::Agent,
    url: String,
    mode: Mode,
    /// All of it but for its end.
    body: Vec<u8>,
    buffer: Vec<u8>,
}

#[derive(Default)]
struct Answer {
    text: String,
    calls: Vec<Call>,
}

struct Call {
    id: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    content_block: Option<Block<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    partial_json: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    id: Option<&'a str>,
}

/// Borrowed unless it holds an escape; in an `Option`, a plain `Cow` would always be copied.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Arguments {
    x: i64,
}

impl Conversation {
    fn new(task: &Task) -> Conversation {
        let config = ureq::Agent::config_builder().no_delay(true).build();
        let schema = json!({"type": "object", "required": ["x"],
            "properties": {"x": {"type": "integer"}, "s": {"type": "string"}}});
        let tool = json!({"name": "echo", "description": "Echo x", "input_schema": schema});
        let model = &task.model;
        let body = format!(
            r#"{{"model":"{model}","max_tokens":4096,"stream":true,"system":"{SYSTEM}","tools":[{tool}],"messages":[{{"role":"user","content":"{PROMPT}"}}"#
        );
        Conversation {
            http: ureq::Agent::new_with_config(config),
            url: format!("{}/v1/messages", task.url),
            mode: task.mode,
            body: body.into_bytes(),
            buffer: vec![0; 64 << 10],
        }
    }

    fn prompt(&mut self) -> Result<(), Failure> {
        loop {
            let body = self.ask()?;
            let mut answer = Answer::default();
            read_data(body, &mut self.buffer, |data| answer.take(data, self.mode))?;
            if answer.calls.is_empty() {
                return Ok(());
            }
            self.answer_calls(&answer)?;
        }
    }

    /// Reads and parses on a thread of its own, which gives each delta to the one that counts it.
    fn prompt_with_hop(&mut self) -> Result<(), Failure> {
        let (sender, deltas) = mpsc::channel::<String>();
        let body = self.ask()?;
        let buffer = &mut self.buffer;
        thread::scope(|scope| {
            let reader = scope.spawn(move || {
                read_data(body, buffer, |data| {
                    if let Ok(Event { delta: Some(Delta { text: Some(text), .. }), .. }) =
                        serde_json::from_slice(data)
                    {
                        let _ = sender.send(text.0.into_owned());
                    }
                })
            });
            let mut text = String::new();
            for delta in deltas {
                TALLY.text(&delta, self.mode);
                text.push_str(&delta);
            }
            reader.join().expect("no panic")?;
            Ok(())
        })
    }

    fn abort(&mut self) {
        let http = self.http.clone();
        let (first, seen) = mpsc::channel();
        thread::scope(|scope| {
            let aborter = scope.spawn(move || {
                seen.recv().expect("a first delta");
                pause(SILENCE);
                let start = clock::now();
                http.shutdown();
                start
            });
            let body = self.ask().expect("an answer");
            let mut answer = Answer::default();
            let end = read_data(body, &mut self.buffer, |data| {
                answer.take(data, self.mode);
                if !answer.text.is_empty() {
                    let _ = first.send(());
                }
            });
            let settled = clock::now();
            assert!(end.is_err(), "the stream was aborted");
            TALLY.aborted(aborter.join().expect("no panic"), settled);
        });
    }

    fn ask(&mut self) -> Result<impl Read + Send + use<>, Failure> {
        let length = self.body.len();
        self.body.extend_from_slice(b"]}");
        let request = self.http.post(&self.url);
        let request = request.header("content-type", "application/json").header("x-api-key", "k");
        let response = request.header("anthropic-version", "2023-06-01").send(&*self.body)?;
        self.body.truncate(length);
        Ok(response.into_body().into_reader())
    }

    fn answer_calls(&mut self, answer: &Answer) -> Result<(), Failure> {
        let run = |call: &Call| {
            let x = serde_json::from_str(&call.arguments).map_or(-1, |it: Arguments| it.x);
            TALLY.echo(x)
        };
        let results: Vec<String> = match &*answer.calls {
            [call] => vec![run(call)],
            calls => calls.par_iter().map(run).collect(),
        };
        let body = &mut self.body;
        write!(body, r#",{{"role":"assistant","content":["#)?;
        if !answer.text.is_empty() {
            write!(body, r#"{{"type":"text","text":{}}},"#, json!(answer.text))?;
        }
        for Call { id, arguments } in &answer.calls {
            write!(
                body,
                r#"{{"type":"tool_use","id":"{id}","name":"echo","input":{arguments}}},"#
            )?;
        }
        body.pop();
        write!(body, r#"]}},{{"role":"user","content":["#)?;
        for (Call { id, .. }, result) in answer.calls.iter().zip(&results) {
            let result = json!(result);
            write!(body, r#"{{"type":"tool_result","tool_use_id":"{id}","content":{result}}},"#)?;
        }
        body.pop();
        body.extend_from_slice(b"]}");
        Ok(())
    }
}

impl Answer {
    fn take(&mut self, data: &[u8], mode: Mode) {
        let Ok(Event { delta, content_block }) = serde_json::from_slice(data) else { return };
        if let Some(id) = content_block.and_then(|it: Block<'_>| it.id) {
            self.calls.push(Call { id: id.to_owned(), arguments: String::new() });
        }
        let Some(Delta { text, partial_json }) = delta else { return };
        if let Some(Text(text)) = text {
            TALLY.text(&text, mode);
            self.text.push_str(&text);
        }
        if let (Some(Text(piece)), Some(call)) = (partial_json, self.calls.last_mut()) {
            TALLY.arguments(&piece);
            call.arguments.push_str(&piece);
        }
    }
}

/// Reads server-sent events and gives out the data of each, which this server puts on one line.
fn read_data(
    mut body: impl Read,
    buffer: &mut Vec<u8>,
    mut take: impl FnMut(&[u8]),
) -> io::Result<()> {
    // Of the line that is not complete.
    let (mut start, mut end) = (0, 0);
    loop {
        if end == buffer.len() && start == 0 {
            buffer.resize(end * 2, 0);
        } else if end == buffer.len() {
            buffer.copy_within(start..end, 0);
            (start, end) = (0, end - start);
        }
        let amount = body.read(&mut buffer[end..])?;
        if amount == 0 {
            return Ok(());
        }
        let mut scanned = end;
        end += amount;
        while let Some(length) = memchr(b'\n', &buffer[scanned..end]) {
            if let Some(data) = buffer[start..scanned + length].strip_prefix(b"data: ") {
                take(data);
            }
            scanned += length + 1;
            start = scanned;
        }
        if start == end {
            (start, end) = (0, 0);
        }
    }
}
