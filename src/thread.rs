//! Named threads and the one timer thread. Everything that starts a thread in this crate does it here.

use std::{any::Any, io, mem, panic, process, thread};

pub(crate) mod hand_over;
pub(crate) mod lineage;
pub(crate) mod lock;
pub(crate) mod timer;
#[cfg(feature = "mcp")]
pub(crate) mod turn;

/// The process that something belongs to: after a fork the child has its memory but not its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home(u32);

impl Home {
    /// This process.
    pub(crate) fn here() -> Home {
        Home(process::id())
    }

    /// Whether it is this process.
    pub(crate) fn is_here(self) -> bool {
        self == Home::here()
    }
}

/// Starts a detached thread with `name` (Linux shows its first 15 bytes).
///
/// Its owner ends it by closing the channel that it reads. Nobody joins it: a handle may be dropped on the very thread
/// that it owns, and a host's callback that never returns must not hang a drop.
#[allow(clippy::disallowed_methods)]
pub(crate) fn spawn(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// The same with a stack of so many bytes.
#[cfg(feature = "codemode")]
#[allow(clippy::disallowed_methods)]
pub(crate) fn spawn_with_stack(
    name: &str,
    stack: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(body)
}

/// Runs foreign code; a panic becomes its text.
pub(crate) fn catch<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(panic::AssertUnwindSafe(body)).map_err(|payload| {
        let text = panic_text(&*payload);
        // What was thrown is foreign too, and may panic when it goes. What comes of that is left lying.
        if let Err(again) = panic::catch_unwind(panic::AssertUnwindSafe(|| drop(payload))) {
            mem::forget(again);
        }
        text
    })
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "panicked with a value that is no text".to_owned()
    }
}
