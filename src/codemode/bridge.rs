//! The one native function that a script's world is made of. Whatever calls it is not trusted.

use std::cell::{Cell, RefCell};

use crossbeam_channel::Sender;
use rquickjs::{Ctx, Exception, Function, function::Opt};
use serde::Deserialize;
use serde_json::Value;

use crate::codemode::{
    execution::{Output, ScriptError, ScriptErrorKind},
    image,
    sandbox::{Finish, ScriptCall, Task},
    stack,
};

/// Characters of one stored value, as JSON.
const STORED_VALUE: usize = 262_144;
/// Characters of all stored keys and values.
const STORED_ALL: usize = 1_048_576;

/// The host's side of a VM; lives on the VM's thread.
pub(super) struct Bridge {
    task: RefCell<Task>,
    open: Cell<usize>,
    finished: Cell<bool>,
    sender: Sender<Finish>,
}

#[derive(Deserialize)]
struct Thrown {
    name: String,
    message: String,
    stack: String,
}

/// What a bridge call gives back to the script's world.
enum Reply {
    Nothing,
    Number(usize),
    Text(Option<String>),
}

/// What is thrown into the script's world.
enum Refusal {
    Range(String),
    Type(String),
}

impl Bridge {
    pub(super) fn new(task: Task) -> Bridge {
        let sender = task.finished.clone();
        let (open, finished) = (Cell::new(0), Cell::new(false));
        Bridge { task: RefCell::new(task), open, finished, sender }
    }

    pub(super) fn function<'js>(
        self: &std::rc::Rc<Bridge>,
        ctx: &Ctx<'js>,
    ) -> rquickjs::Result<Function<'js>> {
        let bridge = self.clone();
        let answer = move |ctx: Ctx<'js>,
                           kind: String,
                           first: Opt<Option<String>>,
                           second: Opt<Option<String>>| {
            let (first, second) = (first.0.flatten(), second.0.flatten());
            match bridge.take(&kind, first, second) {
                Ok(Reply::Nothing) => Ok(rquickjs::Value::new_undefined(ctx)),
                #[allow(clippy::cast_precision_loss)]
                Ok(Reply::Number(number)) => Ok(rquickjs::Value::new_number(ctx, number as f64)),
                Ok(Reply::Text(None)) => Ok(rquickjs::Value::new_undefined(ctx)),
                Ok(Reply::Text(Some(text))) => {
                    Ok(rquickjs::String::from_str(ctx, &text)?.into_value())
                }
                Err(Refusal::Range(text)) => Err(Exception::throw_range(&ctx, &text)),
                Err(Refusal::Type(text)) => Err(Exception::throw_type(&ctx, &text)),
            }
        };
        Function::new(ctx.clone(), answer)
    }

    /// Whether the script has come to its end.
    pub(super) fn is_finished(&self) -> bool {
        self.finished.get()
    }

    pub(super) fn open_calls(&self) -> usize {
        self.open.get()
    }

    pub(super) fn call_settled(&self) {
        self.open.set(self.open.get().saturating_sub(1));
    }

    /// The first end counts.
    pub(super) fn finish(&self, end: Finish) {
        if !self.finished.replace(true) {
            let _ = self.sender.send(end);
        }
    }

    fn take(
        &self,
        kind: &str,
        first: Option<String>,
        second: Option<String>,
    ) -> Result<Reply, Refusal> {
        if self.is_finished() {
            return Err(Refusal::Type("the script has ended".to_owned()));
        }
        match (kind, first, second) {
            ("call", Some(tool), Some(arguments)) => self.call(tool, &arguments).map(Reply::Number),
            ("text", Some(text), None) => self.print(Output::Text(text)),
            ("console", Some(text), None) => self.print(Output::Console(text)),
            ("image", Some(url), None) => {
                let image = image::decode(&url).map_err(Refusal::Type)?;
                self.print(Output::Image(image))
            }
            ("store", Some(key), value) => self.store(&key, value),
            ("load", Some(key), None) => Ok(Reply::Text(self.load(&key))),
            ("frames", Some(frames), None) => Ok(Reply::Text(Some(stack::script_frames(&frames)))),
            ("exit", None, None) => {
                self.finish(Ok(None));
                Ok(Reply::Nothing)
            }
            ("done", json, None) => {
                self.finish(Ok(json.map(|json| without_lone_surrogates(&json))));
                Ok(Reply::Nothing)
            }
            ("fail", Some(thrown), None) => {
                self.finish(Err(failure(&thrown)));
                Ok(Reply::Nothing)
            }
            _ => {
                let message = format!("the bridge was called in a way it does not know: {kind:?}");
                self.finish(Err(ScriptError::plain(ScriptErrorKind::Sandbox, message)));
                Err(Refusal::Type("the bridge is broken".to_owned()))
            }
        }
    }

    fn call(&self, tool: String, arguments: &str) -> Result<usize, Refusal> {
        let mut task = self.task.borrow_mut();
        let limits = task.shared.limits.clone();
        let length = arguments.len();
        if length > limits.argument_bytes {
            let text = format!(
                "the argument of {tool} is too large: {length} bytes, at most {}",
                limits.argument_bytes
            );
            return Err(Refusal::Range(text));
        }
        if !task.tools.iter().any(|known| known.name == tool) {
            return Err(Refusal::Type(format!("there is no tool {tool}")));
        }
        let arguments: Value =
            serde_json::from_str(&without_lone_surrogates(arguments)).map_err(|error| {
                Refusal::Type(format!("the argument of {tool} is no JSON: {error}"))
            })?;
        if !task.shared.put_outside(length) {
            let text = format!(
                "the calls that are open have arguments and results of more than {} bytes together: await some of them",
                limits.memory
            );
            return Err(Refusal::Range(text));
        }
        let begun = task.shared.ledger.begin_call(&tool, limits.calls);
        let number =
            begun.inspect_err(|_| task.shared.take_back(length)).map_err(Refusal::Range)?;
        self.open.set(self.open.get() + 1);
        task.crew.start(ScriptCall { number, tool, arguments }, length);
        Ok(number)
    }

    fn print(&self, output: Output) -> Result<Reply, Refusal> {
        let task = self.task.borrow();
        let shared = &task.shared;
        shared.ledger.print(output, &shared.limits).map_err(Refusal::Range)?;
        Ok(Reply::Nothing)
    }

    fn store(&self, key: &str, value: Option<String>) -> Result<Reply, Refusal> {
        let task = self.task.borrow();
        let shared = &task.shared;
        let value = value.map(|value| without_lone_surrogates(&value));
        let length = value.as_ref().map_or(0, |value| value.chars().count());
        if length > STORED_VALUE {
            let text = format!(
                "a stored value may have {STORED_VALUE} characters of JSON, this has {length}"
            );
            return Err(Refusal::Range(text));
        }
        let kept = shared.kept.as_ref().map_or(0, |kept| kept.size());
        let was_kept = shared.kept.as_ref().is_some_and(|kept| kept.load(key).is_some());
        let size = kept + shared.ledger.written_beside(key) + length + key.chars().count();
        if value.is_some() && size > STORED_ALL {
            let text =
                format!("all stored keys and values together may have {STORED_ALL} characters");
            return Err(Refusal::Range(text));
        }
        shared.ledger.write(key, value, was_kept);
        Ok(Reply::Nothing)
    }

    fn load(&self, key: &str) -> Option<String> {
        let task = self.task.borrow();
        let shared = &task.shared;
        shared.ledger.read(key, || shared.kept.as_ref().and_then(|kept| kept.load(key)))
    }
}

/// What the script threw, as the prelude describes it.
fn failure(thrown: &str) -> ScriptError {
    let Ok(thrown) = serde_json::from_str::<Thrown>(&without_lone_surrogates(thrown)) else {
        let message = "the script failed and its error cannot be read";
        return ScriptError::plain(ScriptErrorKind::Sandbox, message);
    };
    stack::script_error(&thrown.name, &thrown.message, &thrown.stack)
}

/// JSON text from the engine, which writes half surrogate pairs as escapes that no Rust text can hold.
fn without_lone_surrogates(json: &str) -> String {
    let mut clean = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(place) = memchr::memchr(b'\\', rest.as_bytes()) {
        let (before, escape) = rest.split_at(place);
        clean.push_str(before);
        let bytes = escape.as_bytes();
        let lone = bytes.get(1) == Some(&b'u')
            && matches!(bytes.get(2), Some(b'd' | b'D'))
            && matches!(bytes.get(3), Some(b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F'));
        let length = if lone { 6 } else { 2 }.min(escape.len());
        clean.push_str(if lone { "\\ufffd" } else { escape.get(..length).unwrap_or(escape) });
        rest = escape.get(length..).unwrap_or_default();
    }
    clean.push_str(rest);
    clean
}
