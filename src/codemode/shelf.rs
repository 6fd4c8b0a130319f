//! Values that scripts keep for later scripts.

use parking_lot::Mutex;

use crate::codemode::sandbox::Kept;

/// JSON texts by key, as long as the code-mode tool lives.
#[derive(Default)]
pub(super) struct Shelf {
    values: Mutex<Vec<(String, String)>>,
}

impl Shelf {
    /// Takes what a script that succeeded wrote; of two at the same time the later one counts.
    pub(super) fn keep(&self, writes: &[(String, Option<String>)]) {
        let mut values = self.values.lock();
        for (key, value) in writes {
            values.retain(|(known, _)| known != key);
            values.extend(value.clone().map(|value| (key.clone(), value)));
        }
    }
}

impl Kept for Shelf {
    fn load(&self, key: &str) -> Option<String> {
        let values = self.values.lock();
        values.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    }

    fn size(&self) -> usize {
        let size = |text: &String| text.chars().count();
        self.values.lock().iter().map(|(key, value)| size(key) + size(value)).sum()
    }
}
