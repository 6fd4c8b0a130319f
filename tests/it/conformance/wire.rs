//! Recorded provider cases: a scripted server answers, requests, events and messages are compared.

use std::{
    collections::VecDeque,
    env, fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::Value;

use crate::chat::Folder;

mod compare;
mod parse;
mod play;
mod splits;

/// Cases that contradict what the library does better on purpose, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "anthropic-messages/tool-without-id",
        "a call without an id gets one, so that its result can name it",
    ),
    (
        "mistral-conversations/base-url-forms",
        "the query of a base URL is sent on every API: the key of a gateway may be in it",
    ),
];

/// So many cases run at the same time: they mostly wait.
const WORKERS: usize = 8;

/// A recorded case and what the reference did.
struct Case {
    /// The folder and the name.
    name: String,
    case: Value,
    golden: Value,
}

/// Runs all recorded cases, or those of the folder that `STEERAGE_CONFORMANCE_WIRE` names.
pub(super) fn replay() {
    let cases = cases();
    let (ran, excepted) = (cases.len(), Mutex::new(0));
    let failed = for_each(cases, |case| {
        let difference = play::difference(&case.case, &case.golden);
        let is_exception = EXCEPTIONS.iter().any(|(name, _)| *name == case.name);
        match difference {
            Some(_) if is_exception => {
                *excepted.lock().unwrap() += 1;
                None
            }
            None if is_exception => Some("it is no exception any more".to_owned()),
            difference => difference,
        }
    });
    let excepted = *excepted.lock().unwrap();
    println!("{ran} wire cases ran, {} differ, {excepted} are named exceptions", failed.len());
    assert!(ran > 0, "no case was found");
    assert!(failed.is_empty(), "cases that differ: {failed:?}");
}

/// Cuts the body of every recorded response at every place: the events stay the same.
pub(super) fn split() {
    let cases = cases();
    let bodies = splits::bodies(cases.iter().map(|case| &case.case));
    let ran = bodies.len();
    let failed = for_each(bodies, splits::difference);
    println!("{ran} bodies were cut everywhere, {} differ", failed.len());
    assert!(ran > 0, "no case was found");
    assert!(failed.is_empty(), "bodies that differ: {failed:?}");
}

/// Passes the answer that is in the body of every recorded response on through a proxy: the message stays the same.
pub(super) fn through_a_proxy() {
    let cases = cases();
    let bodies = splits::bodies(cases.iter().map(|case| &case.case));
    let ran = bodies.len();
    let failed = for_each(bodies, splits::proxied_difference);
    println!("{ran} bodies went through a proxy, {} differ", failed.len());
    assert!(ran > 0, "no case was found");
    assert!(failed.is_empty(), "messages that differ: {failed:?}");
}

/// Records the answer that is in the body of every recorded response, and plays it again: the events stay the same.
pub(super) fn recorded() {
    let cases = cases();
    let bodies = splits::bodies(cases.iter().map(|case| &case.case));
    let ran = bodies.len();
    let folder = Folder::new();
    let numbers = AtomicUsize::new(0);
    let failed = for_each(bodies, |body| {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        splits::replayed_difference(body, &folder.file(&format!("{number}.jsonl")))
    });
    println!("{ran} bodies were recorded and replayed, {} differ", failed.len());
    assert!(ran > 0, "no case was found");
    assert!(failed.is_empty(), "events that differ: {failed:?}");
}

trait Named {
    fn name(&self) -> &str;
}

impl Named for Case {
    fn name(&self) -> &str {
        &self.name
    }
}

/// Returns the names of those that differ, and prints in what.
fn for_each<T: Named + Send>(
    items: Vec<T>,
    difference: impl Fn(&T) -> Option<String> + Sync,
) -> Vec<String> {
    let items = Mutex::new(VecDeque::from(items));
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(item) = items.lock().unwrap().pop_front() else { return };
                    if let Some(difference) = difference(&item) {
                        println!("FAILED {}: {difference}", item.name());
                        failed.lock().unwrap().push(item.name().to_owned());
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    failed
}

fn cases() -> Vec<Case> {
    let root = env::var("STEERAGE_CONFORMANCE_WIRE").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/conformance/wire").to_owned()
    });
    let root = PathBuf::from(root);
    let mut folders: Vec<PathBuf> =
        entries(&root).into_iter().filter(|path| path.is_dir()).collect();
    folders.push(root);
    let mut cases: Vec<Case> = folders.iter().flat_map(|folder| cases_in(folder)).collect();
    let only = env::var("STEERAGE_CONFORMANCE_ONLY").ok();
    cases.retain(|case| only.as_ref().is_none_or(|only| case.name.contains(only.as_str())));
    cases
}

fn cases_in(folder: &Path) -> Vec<Case> {
    let api = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut cases = Vec::new();
    for file in entries(folder) {
        let Some(name) = file.file_name().and_then(|it| it.to_str()?.strip_suffix(".json")) else {
            continue;
        };
        if !name.ends_with(".golden") {
            let golden = read(&folder.join(format!("{name}.golden.json")));
            cases.push(Case { name: format!("{api}/{name}"), case: read(&file), golden });
        }
    }
    cases
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|it| Some(it.ok()?.path())).collect();
    paths.sort();
    paths
}

fn read(file: &Path) -> Value {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
