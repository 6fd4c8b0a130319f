//! House rules that the compiler does not check: layers, sizes, and what may not stand in the code.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The layer of each module of the crate; a module uses those of its own layer or below.
const LAYERS: &[(&str, u8)] = &[
    ("abort", 0),
    ("thread", 0),
    ("clock", 0),
    ("error", 0),
    ("event", 2), // its live messages and tool results belong to the ports
    ("message", 0),
    ("model", 0),
    ("secret", 0),
    ("usage", 0),
    ("partial_json", 1),
    ("schema", 1),
    ("jsonrpc", 1),
    ("sse", 1),
    ("transcript", 1),
    ("auth", 2),
    ("catalogue", 2),
    ("fallback", 2),
    ("limiter", 2),
    ("render", 2),
    ("stream", 2),
    ("tool", 2),
    ("trace", 2),
    ("http", 3),
    ("mcp", 3),
    ("mcp/servers", 6),
    ("provider", 3),
    ("proxy", 3),
    ("models", 3),
    ("image", 3),
    ("agent_loop", 4),
    ("agent", 5),
    ("approval", 6),
    ("builtin", 6),
    ("codemode", 6),
    ("sub_agent", 6),
    ("ask", 6),
    ("hosted", 6),
    ("testing", 6),
];

/// Lines of a file without its tests, and of a function.
const LONGEST_FILE: usize = 600;
const LONGEST_FUNCTION: usize = 60;

#[test]
fn modules_use_their_own_layer_or_one_below() {
    let mut faults = Vec::new();
    for (path, text) in sources("src") {
        let module = top_module(&path);
        if module == "lib" || is_test_file(&path) {
            continue;
        }
        let layer =
            layer_of(&module).unwrap_or_else(|| panic!("{module} has no layer in this test"));
        for used in used_modules(&text) {
            match layer_of(&used) {
                Some(below) if below <= layer => (),
                Some(_) => faults.push(format!("{} uses {used}", path.display())),
                None => faults.push(format!("{} uses {used}, which has no layer", path.display())),
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn files_and_functions_are_short() {
    let mut faults = Vec::new();
    for (path, text) in sources("src") {
        let code = without_tests(&text);
        let lines = code.lines().count();
        if lines > LONGEST_FILE && !is_test_file(&path) {
            faults.push(format!("{}: {lines} lines", path.display()));
        }
        for (name, length) in functions(code) {
            if length > LONGEST_FUNCTION {
                faults.push(format!("{}: fn {name} has {length} lines", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_module_says_what_it_is() {
    let files = ["src", "tests/it", "examples"].into_iter().flat_map(sources);
    let silent: Vec<_> =
        files.filter(|(_, text)| !text.starts_with("//!")).map(|(path, _)| path).collect();
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn nothing_unfinished_sleeping_or_machine_bound_stands_in_the_code() {
    // Written in two halves, so that this file does not find itself.
    let banned = [
        ["thread::", "sleep("],
        ["todo", "!("],
        ["unimplemented", "!("],
        ["dbg", "!("],
        ["#[ig", "nore"],
        ["allow(dead", "_code)"],
        ["127.0.0.1:", "8"],
        ["localhost:", "8"],
    ]
    .map(|halves| halves.concat());
    let mut faults = Vec::new();
    for (path, text) in ["src", "tests/it", "tests/bench", "examples"].into_iter().flat_map(sources)
    {
        for (number, line) in text.lines().enumerate() {
            // Prose may name a port of the reader's own machine.
            let is_prose = line.trim_start().starts_with("//");
            for word in banned.iter().filter(|word| line.contains(word.as_str())) {
                if !(is_prose && word.contains("host")) {
                    faults.push(format!("{}:{}: {word}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn threads_are_started_in_one_place() {
    let starters: Vec<_> = sources("src")
        .filter(|(path, text)| {
            let text = without_tests(text);
            let spawns = ["thread::spawn(", "thread::Builder", "thread::scope"];
            !path.ends_with("src/thread.rs")
                && !is_test_file(path)
                && text.lines().any(|line| {
                    !line.trim_start().starts_with("//")
                        && spawns.iter().any(|spawn| line.contains(spawn) && line.contains("std::"))
                })
        })
        .map(|(path, _)| path)
        .collect();
    assert!(starters.is_empty(), "{starters:#?}");
}

fn sources(folder: &str) -> impl Iterator<Item = (PathBuf, String)> {
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    files.sort();
    files.into_iter().map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        (path, text)
    })
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn top_module(path: &Path) -> String {
    let inside = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let first = inside.components().next().unwrap().as_os_str().to_string_lossy();
    let first = first.trim_end_matches(".rs");
    // A part of a module may have a layer of its own.
    let whole = inside.with_extension("");
    let parts: Vec<_> =
        whole.components().take(2).map(|part| part.as_os_str().to_string_lossy()).collect();
    let nested = parts.join("/");
    if layer_of(&nested).is_some() { nested } else { first.to_owned() }
}

fn layer_of(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

/// The modules that a file names behind `crate::`, in single uses and in groups.
fn used_modules(text: &str) -> Vec<String> {
    let text: String = without_tests(text)
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut used = Vec::new();
    for (place, _) in text.match_indices("crate::") {
        let rest = &text[place + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut item = String::new();
            for character in group.chars() {
                match character {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => used.push(std::mem::take(&mut item)),
                    _ if depth == 0 => item.push(character),
                    _ => (),
                }
            }
            used.push(item);
        } else {
            used.push(rest.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect());
        }
    }
    let first = |item: &String| item.trim().split("::").next().unwrap_or_default().to_owned();
    used.iter().map(first).filter(|name| name.starts_with(|it: char| it.is_lowercase())).collect()
}

fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests {").map_or(text, |place| &text[..place])
}

fn is_test_file(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

/// The names and lengths of functions, by the indentation that the formatter gives.
fn functions(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let lines: Vec<&str> = code.lines().collect();
    for (start, line) in lines.iter().enumerate() {
        let Some(place) = line.find("fn ") else { continue };
        let before = &line[..place];
        let is_function = before.trim().is_empty()
            || before
                .trim()
                .split(' ')
                .all(|word| word.starts_with("pub") || word == "const" || word.ends_with(')'));
        if !is_function || line.trim_start().starts_with("//") {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let close = format!("{}}}", " ".repeat(indent));
        let opens = lines[start..]
            .iter()
            .find_map(|line| line.ends_with(['{', ';', '}']).then(|| line.ends_with('{')));
        if opens != Some(true) {
            continue;
        }
        if let Some(length) = lines[start..].iter().position(|line| *line == close) {
            let name = line[place + 3..]
                .chars()
                .take_while(|it| it.is_alphanumeric() || *it == '_')
                .collect();
            found.push((name, length + 1));
        }
    }
    found
}
