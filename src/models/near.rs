//! What a name that is not known may have meant.

/// How many names are given.
const MOST: usize = 3;

/// Says which names are meant perhaps, to stand after the name that is not known; nothing if none is alike.
pub(super) fn hint<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> String {
    let wanted = wanted.to_lowercase();
    let mut ranked: Vec<_> =
        names.filter_map(|name| Some((distance(&wanted, &name.to_lowercase())?, name))).collect();
    ranked.sort_by_key(|(distance, name)| (*distance, name.len()));
    ranked.truncate(MOST);
    let names: Vec<_> = ranked.iter().map(|(_, name)| format!("`{name}`")).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => format!(" (did you mean {only}?)"),
        Some((last, others)) => format!(" (did you mean {} or {last}?)", others.join(", ")),
    }
}

/// How far apart two names are, if they are alike: one is a part of the other, or few letters differ.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let edits = edits(wanted, name);
    let few = (wanted.chars().count() / 4).max(1);
    let is_part =
        wanted.len() > 2 && name.len() > 2 && (name.contains(wanted) || wanted.contains(name));
    (edits <= few || is_part).then_some(edits)
}

/// The number of letters to put in, take out or replace (Levenshtein), with two neighbours that change places as two.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut corner = row[0];
        row[0] = line + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = replaced.min(corner + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}
