//! Names of tools as JavaScript identifiers.

use std::{borrow::Cow, collections::HashSet};

/// Makes every character that an identifier cannot hold (at its place) an underscore.
fn identifier(name: &str) -> String {
    let valid = |place: usize, it: char| {
        it.is_ascii_alphabetic() || matches!(it, '_' | '$') || (place > 0 && it.is_ascii_digit())
    };
    let made: String = name
        .chars()
        .enumerate()
        .map(|(place, it)| if valid(place, it) { it } else { '_' })
        .collect();
    if made.is_empty() { "_".to_owned() } else { made }
}

/// Whether a name is one already.
pub(super) fn is_identifier(name: &str) -> bool {
    !name.is_empty() && identifier(name) == name
}

/// The identifier of each tool, in order: a name that is one already owns it; of other names that become the same one the
/// first gets it and the rest have none. A name that came before has none either.
pub(super) fn identifiers<'a>(names: &[&'a str]) -> Vec<Option<Cow<'a, str>>> {
    let mut taken: HashSet<Cow<'a, str>> =
        names.iter().filter(|name| is_identifier(name)).map(|name| Cow::Borrowed(*name)).collect();
    let mut seen = HashSet::new();
    names
        .iter()
        .map(|name| {
            if !seen.insert(*name) {
                return None;
            }
            if is_identifier(name) {
                return Some(Cow::Borrowed(*name));
            }
            let made: Cow<'a, str> = Cow::Owned(identifier(name));
            taken.insert(made.clone()).then_some(made)
        })
        .collect()
}
