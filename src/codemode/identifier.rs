//! Names of tools as JavaScript identifiers.

/// Makes every character that an identifier cannot hold (at its place) an underscore.
pub(super) fn identifier(name: &str) -> String {
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
