//! The official test suite of JSON Schema, 2020-12 core: every verdict as the suite has it, formats and coercion off.
//!
//! The suite is not part of this repository. `STEERAGE_SCHEMA_SUITE` names its folder, which holds `tests` and
//! `remotes`; without it nothing is checked here, and the test says so.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use steerage::{
    Tool,
    schema::{Schema, SchemaOptions},
};

/// Files that are left out, and why.
const LEFT_OUT: &[(&str, &str)] = &[(
    "vocabulary.json",
    "it takes keywords away by a meta-schema of its own; a schema means the same here whatever `$schema` says",
)];

/// Schemas that cannot be built: file, description, and a part of the error.
const UNBUILT: &[(&str, &str, &str)] = &[];

/// A part that never applies, and that would take a validator without a memory for ever: with it, the verdict is found
/// in the other way.
const COSTLY: &str = "urn:costly";

/// The suite of this version: fewer cases would be a suite that was not found as a whole.
const N_CASES: usize = 1252;

#[test]
fn every_verdict_of_the_official_suite_is_right() {
    let Some(suite) = std::env::var_os("STEERAGE_SCHEMA_SUITE").map(PathBuf::from) else {
        eprintln!("skipped: STEERAGE_SCHEMA_SUITE does not name the folder of the suite");
        return;
    };
    let mut documents = documents(&suite.join("remotes"));
    documents.insert(COSTLY.to_owned(), lattice());
    let options =
        SchemaOptions { formats: false, coercion: false, is_for_arguments: false, documents };
    let mut seen = Seen::default();
    for path in json_files(&suite.join("tests/draft2020-12")) {
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        if LEFT_OUT.iter().any(|(name, _)| *name == file) {
            continue;
        }
        for group in read(&path).as_array().unwrap() {
            seen.group(&file, group, &options);
        }
    }
    let Seen { wrong, narrowed, unbuilt, n_cases } = seen;
    assert!(narrowed.is_empty(), "{narrowed:#?}");
    assert!(wrong.is_empty(), "{} wrong verdicts: {wrong:#?}", wrong.len());
    assert_eq!(n_cases, N_CASES);
    let listed = |(file, group, error): &(String, String, String)| {
        UNBUILT.iter().any(|it| it.0 == file && it.1 == group && error.contains(it.2))
    };
    assert!(unbuilt.iter().all(listed) && unbuilt.len() == UNBUILT.len(), "{unbuilt:#?}");
}

#[derive(Default)]
struct Seen {
    wrong: Vec<String>,
    /// What a schema takes, but not what the model is told of it.
    narrowed: Vec<String>,
    unbuilt: Vec<(String, String, String)>,
    n_cases: usize,
}

impl Seen {
    fn group(&mut self, file: &str, group: &Value, options: &SchemaOptions) {
        let name = group["description"].as_str().unwrap();
        let tests = group["tests"].as_array().unwrap();
        self.n_cases += tests.len();
        let schema = match Schema::with_options(group["schema"].clone(), options) {
            Ok(schema) => schema,
            Err(error) => {
                self.unbuilt.push((file.to_owned(), name.to_owned(), error.to_string()));
                return;
            }
        };
        let costly = Schema::with_options(costly(&group["schema"]), options).unwrap();
        let tool = Tool::with_schema("t", "For a test", group["schema"].clone(), |_, _| Ok(""));
        let declared = Schema::with_options(tool.declaration().parameters, options);
        for test in tests {
            let checked = schema.check_value(&test["data"]);
            let again = costly.check_value(&test["data"]);
            if again.is_ok() != checked.is_ok() {
                self.wrong
                    .push(format!("{file}: {name}: {}: costly {again:?}", test["description"]));
            }
            if let Ok(value) = &checked {
                assert_eq!(value.to_string(), test["data"].to_string(), "it was changed");
            }
            if checked.is_ok() != test["valid"].as_bool().unwrap() {
                self.wrong.push(format!("{file}: {name}: {}: {checked:?}", test["description"]));
            }
            if checked.is_ok() && test["data"].is_object() {
                let declared = declared.as_ref().unwrap().check_value(&test["data"]);
                if let Err(error) = declared {
                    self.narrowed.push(format!("{file}: {name}: {}: {error}", test["description"]));
                }
            }
        }
    }
}

/// Two ways at each of many steps.
fn lattice() -> Value {
    let mut steps = Map::new();
    for step in 0..20 {
        let next = json!({"properties": {"a": {"$ref": format!("#/$defs/{}", step + 1)}}});
        steps.insert(step.to_string(), json!({"anyOf": [next, next]}));
    }
    steps.insert("20".to_owned(), json!(true));
    json!({"$ref": "#/$defs/0", "$defs": steps})
}

fn costly(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if schema.is_boolean() {
        schema = json!({"allOf": [schema]});
    }
    schema["dependentSchemas"]["a field that no case has"] = json!({"$ref": COSTLY});
    schema
}

/// All documents of the suite, by the addresses at which its schemas expect them.
fn documents(folder: &Path) -> BTreeMap<String, Value> {
    let mut documents = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        folders.extend(entries(&at).into_iter().filter(|it| it.is_dir()));
        for path in json_files(&at) {
            let steps = path.strip_prefix(folder).unwrap().iter();
            let steps: Vec<_> = steps.map(|step| step.to_str().unwrap()).collect();
            let uri = format!("http://localhost:1234/{}", steps.join("/"));
            documents.insert(uri, read(&path));
        }
    }
    documents
}

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let is_json = |path: &PathBuf| path.extension().is_some_and(|it| it == "json");
    entries(folder).into_iter().filter(is_json).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}
