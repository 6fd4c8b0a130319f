//! The thread of one script: an engine that is made, used and dropped on it.

use std::{
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Function, Object, Persistent, Runtime,
    context::EvalOptions,
};
use serde_json::json;

use crate::{
    codemode::{
        bridge::Bridge,
        calls::{How, Settled},
        execution::{ScriptError, ScriptErrorKind},
        identifier::identifiers,
        sandbox::{Letter, ScriptTool, Shared, Task},
        stack::{self, AFTER, BEFORE, PRELUDE, SCRIPT},
    },
    thread,
};

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Between so many jobs the stop flag is looked at: a chain of promises is not interrupted by the engine.
const JOBS_BETWEEN_LOOKS: usize = 50;
/// What native code may need on top of the stack of the script.
const NATIVE_STACK: usize = 1 << 20;
const MOST_STACK: usize = 8 << 20;

/// Starts the thread.
pub(super) fn start(task: Task) -> io::Result<()> {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let stack = task.shared.limits.stack.min(MOST_STACK);
    let (shared, finished) = (task.shared.clone(), task.finished.clone());
    let body = move || {
        let ended = thread::catch(|| run(task));
        shared.end();
        if let Err(panic) = ended {
            let message = format!("the engine panicked: {panic}");
            let _ = finished.try_send(Err(ScriptError::plain(ScriptErrorKind::Sandbox, message)));
        }
    };
    thread::spawn_with_stack(&format!("codemode-{number}"), stack + NATIVE_STACK, body).map(drop)
}

fn run(mut task: Task) {
    let shared = task.shared.clone();
    let script = std::mem::take(&mut task.script);
    let inbox = task.inbox.clone();
    let setup = setup(&task.tools);
    let bridge = Rc::new(Bridge::new(task));
    let broken = |error: &rquickjs::Error| {
        let message = format!("the engine could not be started: {error}");
        bridge.finish(Err(ScriptError::plain(ScriptErrorKind::Sandbox, message)));
    };
    let machine = match Machine::new(&bridge, &setup, &shared) {
        Ok(machine) => machine,
        Err(error) => return broken(&error),
    };
    machine.begin(&script, &bridge);
    loop {
        if !machine.drain(&bridge, &shared) || bridge.is_finished() || shared.is_stopped() {
            break;
        }
        if bridge.open_calls() == 0 {
            bridge.finish(Err(never_settles()));
            break;
        }
        match inbox.recv() {
            Ok(Letter::Settled(settled)) => {
                bridge.call_settled();
                shared.take_back(settled.payload.len());
                machine.settle(settled, &bridge);
            }
            Ok(Letter::Stop) | Err(_) => break,
        }
    }
    // An end that nobody waits for any more is as good as none.
    let message = "the engine stopped before the script ended";
    bridge.finish(Err(ScriptError::plain(ScriptErrorKind::Sandbox, message)));
    shared.end();
}

/// An engine with its world in place.
struct Machine {
    settle: Persistent<Function<'static>>,
    run: Persistent<Function<'static>>,
    fail: Persistent<Function<'static>>,
    context: Context,
    runtime: Runtime,
}

impl Machine {
    fn new(bridge: &Rc<Bridge>, setup: &str, shared: &Arc<Shared>) -> rquickjs::Result<Machine> {
        let runtime = Runtime::new()?;
        runtime.set_memory_limit(shared.limits.memory);
        runtime.set_max_stack_size(shared.limits.stack.min(MOST_STACK));
        let watched = shared.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || watched.is_stopped())));
        let context = Context::full(&runtime)?;
        let (settle, run, fail) = context.with(|ctx| {
            let mut options = EvalOptions::default();
            options.filename = Some(PRELUDE.to_owned());
            let prelude: Function<'_> =
                ctx.eval_with_options(include_str!("prelude.js"), options)?;
            let world: Object<'_> =
                prelude.call((bridge.function(&ctx)?, setup, is_proxy(&ctx)?))?;
            let part = |name: &str| -> rquickjs::Result<_> {
                Ok(Persistent::save(&ctx, world.get::<_, Function<'_>>(name)?))
            };
            rquickjs::Result::Ok((part("settle")?, part("run")?, part("fail")?))
        })?;
        Ok(Machine { settle, run, fail, context, runtime })
    }

    /// Runs the script up to where it first waits.
    fn begin(&self, script: &str, bridge: &Bridge) {
        self.context.with(|ctx| {
            let mut options = EvalOptions::default();
            options.strict = false;
            options.filename = Some(SCRIPT.to_owned());
            let source = [BEFORE, script, AFTER].concat();
            let body = ctx.eval_with_options::<Function<'_>, _>(source, options);
            let started =
                body.and_then(|body| self.run.clone().restore(&ctx)?.call::<_, ()>((body,)));
            self.report(&ctx, started, bridge);
        });
    }

    fn settle(&self, settled: Settled, bridge: &Bridge) {
        self.context.with(|ctx| {
            let how = match settled.how {
                How::Json => "json",
                How::Text => "text",
                How::Error => "error",
            };
            let arguments = (settled.number, how, settled.payload);
            let told = self
                .settle
                .clone()
                .restore(&ctx)
                .and_then(|settle| settle.call::<_, ()>(arguments));
            self.report(&ctx, told, bridge);
        });
    }

    /// Runs the jobs of promises until none is left; false if the script cannot go on.
    fn drain(&self, bridge: &Bridge, shared: &Shared) -> bool {
        for number in 1_usize.. {
            if bridge.is_finished()
                || (number.is_multiple_of(JOBS_BETWEEN_LOOKS) && shared.is_stopped())
            {
                return false;
            }
            match self.runtime.execute_pending_job() {
                Ok(true) => (),
                Ok(false) => return true,
                Err(_) => {
                    self.context.with(|ctx| {
                        self.report(&ctx, Err(rquickjs::Error::Exception), bridge);
                    });
                    return false;
                }
            }
        }
        true
    }

    /// Ends the script with an error that nothing in it could catch.
    fn report(&self, ctx: &Ctx<'_>, result: rquickjs::Result<()>, bridge: &Bridge) {
        let Err(caught) = result.catch(ctx) else { return };
        if bridge.is_finished() {
            return;
        }
        let described = match &caught {
            CaughtError::Exception(exception) => Some(exception.clone().into_object().into_value()),
            CaughtError::Value(value) => Some(value.clone()),
            CaughtError::Error(_) => None,
        };
        if let Some(value) = described {
            let told = self.fail.clone().restore(ctx).and_then(|fail| fail.call::<_, ()>((value,)));
            if told.is_ok() && bridge.is_finished() {
                return;
            }
            let _ = ctx.catch();
        }
        let error = stack::script_error("InternalError", &plain_text(&caught), "");
        bridge.finish(Err(error));
    }
}

/// The text of an error without running any code of the script.
fn plain_text(caught: &CaughtError<'_>) -> String {
    match caught {
        CaughtError::Value(value) if value.is_null() => "out of memory".to_owned(),
        CaughtError::Exception(exception) => {
            exception.message().unwrap_or_else(|| "out of memory".to_owned())
        }
        other => other.to_string(),
    }
}

/// A function that scripts cannot do without the engine's help.
fn is_proxy<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Function<'js>> {
    Function::new(ctx.clone(), |value: rquickjs::Value<'js>| value.is_proxy())
}

fn never_settles() -> ScriptError {
    let message = "the script waits for a promise that nothing can settle: no tool call is open, and there are no timers";
    ScriptError::plain(ScriptErrorKind::Script, message)
}

/// What the prelude needs to know of the tools.
fn setup(tools: &[ScriptTool]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let listed = identifiers(&names)
        .into_iter()
        .zip(tools)
        .map(|(id, tool)| json!({"id": id, "name": tool.name, "description": tool.description}));
    serde_json::Value::Array(listed.collect()).to_string()
}
