//! Values that scripts keep for later scripts.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::codemode::{ledger::size, sandbox::Kept};

/// JSON texts by key, as long as the code-mode tool lives.
#[derive(Default)]
pub(super) struct Shelf {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    values: HashMap<String, String>,
    /// Characters of all keys and values.
    size: usize,
}

impl Shelf {
    /// Takes what a script that succeeded wrote; of two at the same time the later one counts.
    pub(super) fn keep(&self, writes: HashMap<String, Option<String>>) {
        let mut state = self.state.lock();
        for (key, value) in writes {
            if let Some(before) = state.values.remove(&key) {
                state.size -= size(&key, Some(&before));
            }
            if let Some(value) = value {
                state.size += size(&key, Some(&value));
                state.values.insert(key, value);
            }
        }
    }
}

impl Kept for Shelf {
    fn load(&self, key: &str) -> Option<String> {
        self.state.lock().values.get(key).cloned()
    }

    fn size(&self) -> usize {
        self.state.lock().size
    }
}
