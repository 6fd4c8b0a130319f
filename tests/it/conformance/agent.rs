//! Recorded agent scenarios: the scenario runs on an agent or the low-level loop, the logs are compared.

use std::{env, fs, path::Path};

use serde_json::Value;

mod compare;
mod hooks;
mod looped;
mod scripts;
mod world;

/// Runs all recorded scenarios, or those of the folder that `STEERAGE_CONFORMANCE_AGENT` names.
pub(super) fn replay() {
    let folders = match env::var("STEERAGE_CONFORMANCE_AGENT") {
        Ok(folder) => vec![folder],
        Err(_) => ["agent", "agent-random"]
            .map(|name| format!("{}/tests/data/conformance/{name}", env!("CARGO_MANIFEST_DIR")))
            .into(),
    };
    let mut ran = 0;
    let mut failed = Vec::new();
    for folder in folders {
        for (name, scenario, golden) in cases(Path::new(&folder)) {
            ran += 1;
            if let Some(difference) = difference(&scenario, &golden) {
                println!("{name}: {difference}");
                failed.push(name);
            }
        }
    }
    println!("{ran} agent scenarios ran, {} differ", failed.len());
    assert!(ran > 0, "no scenario was found");
    assert!(failed.is_empty(), "scenarios that differ: {failed:?}");
}

fn cases(folder: &Path) -> Vec<(String, Value, Value)> {
    let read = |path: &Path| -> Value {
        let text =
            fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .filter(|name| !name.ends_with(".golden"))
        .collect();
    names.sort();
    let only = env::var("STEERAGE_CONFORMANCE_ONLY").ok();
    names.retain(|name| only.as_ref().is_none_or(|only| only == name));
    names
        .into_iter()
        .map(|name| {
            let scenario = read(&folder.join(format!("{name}.json")));
            let golden = read(&folder.join(format!("{name}.golden.json")));
            (name, scenario, golden)
        })
        .collect()
}

fn difference(scenario: &Value, golden: &Value) -> Option<String> {
    let is_loop = scenario["mode"] == "loop";
    let ours = if is_loop { looped::run(scenario) } else { world::run(scenario) };
    if is_loop {
        compare::loop_difference(golden, &ours)
    } else {
        compare::difference(golden, &ours)
    }
}
