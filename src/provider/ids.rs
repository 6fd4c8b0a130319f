//! Ids of other models' calls in the form that a vendor takes.

use std::collections::HashMap;

/// The ids of a request. Where two come out alike in the vendor's form, the later one is told by its fingerprint.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallIds {
    used: HashMap<String, String>,
}

impl CallIds {
    /// The form of `id` that no other id has: `fitting`, if it is free. It has `longest` characters at most.
    pub(crate) fn unique(&mut self, id: &str, fitting: String, longest: usize) -> String {
        let first = self.used.entry(fitting.clone()).or_insert_with(|| id.to_owned());
        if first == id { fitting } else { with_fingerprint(&fitting, id, longest) }
    }
}

/// What a long id begins with, and what tells it from others.
pub(crate) fn with_fingerprint(front: &str, id: &str, longest: usize) -> String {
    let hash = fingerprint(id);
    let front: String = front.chars().take(longest - hash.len() - 1).collect();
    format!("{front}_{hash}")
}

/// Eight characters that differ for different texts (FNV-1a).
pub(crate) fn fingerprint(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

/// The text with an underscore for each character that is no ASCII letter or digit, `_` or `-`.
pub(crate) fn plain(text: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    text.chars().map(|it| if is_plain(it) { it } else { '_' }).collect()
}
