//! What the requests of one conversation have in common.

use std::{any::Any, fmt, sync::Arc};

use parking_lot::Mutex;

/// A place where a provider keeps what the next request of the same conversation can use again: mostly the finished part
/// of the body, so that a turn costs what is new in it, however long the conversation is.
///
/// An agent has one for as long as it lives and gives it with each request ([`Transcript::memo`](crate::Transcript::memo)).
/// It is a help, never a source: whoever takes something out checks that it fits the messages. Clones are handles to the
/// same place. Stream functions that hand requests on leave it as it is.
#[derive(Clone, Default)]
pub struct RequestMemo {
    kept: Arc<Mutex<Option<Box<dyn Any + Send>>>>,
}

impl RequestMemo {
    /// Takes out what is kept, if it is a `T`; of two requests at the same time one finds nothing.
    pub fn take<T: Any>(&self) -> Option<T> {
        let kept = self.kept.lock().take()?;
        // What another kind of provider left is of no use to anyone any more.
        kept.downcast().ok().map(|kept| *kept)
    }

    /// Keeps something in place of what was there.
    pub fn put<T: Any + Send>(&self, kept: T) {
        let before = self.kept.lock().replace(Box::new(kept));
        drop(before);
    }

    /// Forgets what is kept.
    pub fn clear(&self) {
        let before = self.kept.lock().take();
        drop(before);
    }
}

impl fmt::Debug for RequestMemo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestMemo").finish_non_exhaustive()
    }
}
