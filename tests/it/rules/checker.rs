//! What each wire API demands of a request, as far as a conversation can break it.

use std::collections::HashSet;

use serde_json::Value;

/// What stands in a conversation, in order, whatever the API calls it.
enum Item {
    User,
    Assistant,
    Call { id: String },
    Result { id: String },
}

/// The rules that a request to `api` breaks, each by a short name.
pub(super) fn broken(api: &str, body: &Value) -> Vec<String> {
    let mut rules = Vec::new();
    let items = match api {
        "anthropic-messages" => anthropic(body, &mut rules),
        "openai-completions" | "mistral-conversations" => chat(api, body, &mut rules),
        "openai-responses" | "azure-openai-responses" => responses(body, &mut rules),
        "google-generative-ai" | "google-vertex" => google(body, &mut rules),
        "pi-messages" => pi(body, &mut rules),
        other => panic!("no rules for {other}"),
    };
    pairs(&items, &mut rules);
    rules.sort();
    rules.dedup();
    rules
}

fn demand(holds: bool, rule: &str, rules: &mut Vec<String>) {
    if !holds {
        rules.push(rule.to_owned());
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// Letters, digits, `_` and `-`, at least one and at most `most`.
fn is_name(name: &str, most: usize) -> bool {
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
    !name.is_empty() && name.len() <= most && name.chars().all(fits)
}

fn is_data_url(url: &str) -> bool {
    url.strip_prefix("data:image/").is_some_and(|rest| rest.contains(";base64,"))
}

/// Every call is answered once, after it and before anybody else speaks, and no result answers another call.
fn pairs(items: &[Item], rules: &mut Vec<String>) {
    let mut open: HashSet<&str> = HashSet::new();
    let mut seen: HashSet<&str> = HashSet::new();
    let mut has_results = false;
    for item in items {
        match item {
            Item::Call { id } => {
                demand(seen.insert(id), "ids of calls differ", rules);
                demand(!has_results || open.is_empty(), "calls are answered", rules);
                has_results = false;
                open.insert(id);
            }
            Item::Result { id } => {
                demand(open.remove(&**id), "results answer a call", rules);
                has_results = true;
            }
            Item::User => demand(open.is_empty(), "calls are answered", rules),
            Item::Assistant => {
                demand(!has_results || open.is_empty(), "calls are answered", rules);
                has_results = false;
            }
        }
    }
    demand(open.is_empty(), "calls are answered", rules);
}

fn anthropic(body: &Value, rules: &mut Vec<String>) -> Vec<Item> {
    demand(body["max_tokens"].as_u64().is_some_and(|it| it > 0), "max_tokens", rules);
    demand(text(&body["messages"][0], "role") == "user", "the user begins", rules);
    for tool in list(&body["tools"]) {
        demand(is_name(text(tool, "name"), 128), "names of tools", rules);
        demand(tool["input_schema"]["type"] == "object", "schemas are objects", rules);
    }
    let mut items = Vec::new();
    for message in list(&body["messages"]) {
        let role = text(message, "role");
        demand(matches!(role, "user" | "assistant" | "system"), "roles", rules);
        let is_whole = message["content"].as_array().is_none_or(|it| !it.is_empty());
        demand(is_whole, "no empty content", rules);
        for block in list(&message["content"]) {
            match (role, text(block, "type")) {
                ("user", "tool_result") => {
                    items.push(Item::Result { id: text(block, "tool_use_id").to_owned() });
                    list(&block["content"]).for_each(|it| anthropic_block(it, rules));
                }
                ("user", _) => {
                    items.push(Item::User);
                    anthropic_block(block, rules);
                }
                ("assistant", "tool_use") => {
                    let id = text(block, "id");
                    demand(is_name(id, 64), "ids of calls", rules);
                    demand(block["input"].is_object(), "arguments are objects", rules);
                    items.push(Item::Call { id: id.to_owned() });
                }
                ("assistant", "thinking") => {
                    demand(!text(block, "signature").is_empty(), "thinking is signed", rules);
                    items.push(Item::Assistant);
                }
                _ => {
                    items.push(Item::Assistant);
                    anthropic_block(block, rules);
                }
            }
        }
    }
    items
}

fn anthropic_block(block: &Value, rules: &mut Vec<String>) {
    match text(block, "type") {
        "text" => demand(!text(block, "text").trim().is_empty(), "no empty text", rules),
        "image" => {
            let source = &block["source"];
            let is_image = source["type"] == "base64" && !text(source, "data").is_empty();
            let kind = text(source, "media_type");
            let known = ["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&kind);
            demand(is_image && known, "images", rules);
        }
        _ => (),
    }
}

fn chat(api: &str, body: &Value, rules: &mut Vec<String>) -> Vec<Item> {
    for tool in list(&body["tools"]) {
        demand(is_name(text(&tool["function"], "name"), 64), "names of tools", rules);
        demand(tool["function"]["parameters"]["type"] == "object", "schemas are objects", rules);
    }
    let mut items = Vec::new();
    for message in list(&body["messages"]) {
        for block in list(&message["content"]) {
            let url = block["image_url"]["url"].as_str().or(block["image_url"].as_str());
            demand(url.is_none_or(is_data_url), "images", rules);
        }
        match text(message, "role") {
            "system" | "developer" => (),
            "user" => items.push(Item::User),
            "tool" => items.push(Item::Result { id: text(message, "tool_call_id").to_owned() }),
            "assistant" => {
                items.push(Item::Assistant);
                let has_calls = list(&message["tool_calls"]).next().is_some();
                let has_content = match &message["content"] {
                    Value::String(it) => !it.is_empty(),
                    Value::Array(it) => !it.is_empty(),
                    _ => false,
                };
                demand(has_calls || has_content, "no empty content", rules);
                for call in list(&message["tool_calls"]) {
                    let id = text(call, "id");
                    let fits = match api {
                        "mistral-conversations" => {
                            id.len() == 9 && is_name(id, 9) && !id.contains(['_', '-'])
                        }
                        _ => !id.is_empty() && id.chars().count() <= 40,
                    };
                    demand(fits, "ids of calls", rules);
                    let arguments = text(&call["function"], "arguments");
                    let is_object = serde_json::from_str::<Value>(arguments)
                        .is_ok_and(|arguments| arguments.is_object());
                    demand(is_object, "arguments are objects", rules);
                    items.push(Item::Call { id: id.to_owned() });
                }
            }
            _ => demand(false, "roles", rules),
        }
    }
    items
}

fn responses(body: &Value, rules: &mut Vec<String>) -> Vec<Item> {
    for tool in list(&body["tools"]) {
        demand(is_name(text(tool, "name"), 64), "names of tools", rules);
        demand(tool["parameters"]["type"] == "object", "schemas are objects", rules);
    }
    let mut items = Vec::new();
    let mut ids = HashSet::new();
    let mut waits = false;
    for item in list(&body["input"]) {
        let id = text(item, "id");
        demand(id.len() <= 64, "ids of items", rules);
        demand(id.is_empty() || ids.insert(id), "ids of items", rules);
        let kind = text(item, "type");
        let follows = matches!(kind, "message" | "function_call" | "reasoning");
        demand(!waits || follows, "reasoning is followed by what it led to", rules);
        waits = kind == "reasoning";
        let parts = list(&item["content"]).chain(list(&item["output"]));
        for part in parts.filter(|part| part["type"] == "input_image") {
            demand(is_data_url(text(part, "image_url")), "images", rules);
        }
        match (kind, text(item, "role")) {
            ("function_call", _) => {
                let call = text(item, "call_id");
                demand(is_name(call, 64), "ids of calls", rules);
                let is_item = id.is_empty() || id.starts_with("fc");
                demand(is_item, "ids of items", rules);
                items.push(Item::Call { id: call.to_owned() });
            }
            ("function_call_output", _) => {
                items.push(Item::Result { id: text(item, "call_id").to_owned() });
            }
            ("reasoning", _) | (_, "assistant") => items.push(Item::Assistant),
            (_, "user") => items.push(Item::User),
            (_, "system" | "developer") => (),
            _ => demand(false, "roles", rules),
        }
    }
    demand(!waits, "reasoning is followed by what it led to", rules);
    items
}

fn google(body: &Value, rules: &mut Vec<String>) -> Vec<Item> {
    for tool in list(&body["tools"]).flat_map(|it| list(&it["functionDeclarations"])) {
        demand(is_name(text(tool, "name"), 64), "names of tools", rules);
    }
    demand(text(&body["contents"][0], "role") == "user", "the user begins", rules);
    let mut items = Vec::new();
    let mut open = Vec::new();
    for content in list(&body["contents"]) {
        let role = text(content, "role");
        demand(matches!(role, "user" | "model"), "roles", rules);
        demand(list(&content["parts"]).next().is_some(), "no empty content", rules);
        let mut calls = Vec::new();
        for part in list(&content["parts"]) {
            if let Some(signature) = part["thoughtSignature"].as_str() {
                let letters = |it: u8| it.is_ascii_alphanumeric() || b"+/=".contains(&it);
                let is_base64 = signature.len() % 4 == 0 && signature.bytes().all(letters);
                demand(is_base64, "signatures are base64", rules);
            }
            if part["inlineData"].is_object() {
                let kind = text(&part["inlineData"], "mimeType");
                demand(kind.starts_with("image/"), "images", rules);
            }
            if let Some(call) = part.get("functionCall") {
                demand(role == "model", "roles", rules);
                demand(call["args"].is_object(), "arguments are objects", rules);
                let name = text(call, "name").to_owned();
                let id = call["id"]
                    .as_str()
                    .map_or_else(|| format!("{name}#{}", items.len()), str::to_owned);
                calls.push((name, id.clone()));
                items.push(Item::Call { id });
            } else if let Some(response) = part.get("functionResponse") {
                demand(response["response"].is_object(), "results are objects", rules);
                let name = text(response, "name");
                let id = response["id"].as_str();
                let place = open.iter().position(|(called, call): &(String, String)| {
                    called == name && id.is_none_or(|id| id == call || call.contains('#'))
                });
                let id = place.map_or_else(|| "none".to_owned(), |place| open.remove(place).1);
                items.push(Item::Result { id });
            } else {
                items.push(if role == "user" { Item::User } else { Item::Assistant });
            }
        }
        open.extend(calls);
    }
    // Images of results stand beside them: they are no word of the user.
    items.retain(|it| !matches!(it, Item::User));
    items
}

/// The server of pi takes a transcript as it is.
fn pi(body: &Value, rules: &mut Vec<String>) -> Vec<Item> {
    demand(body["model"].is_string(), "the model is named", rules);
    for message in list(&body["context"]["messages"]) {
        let role = text(message, "role");
        let known = ["system", "user", "assistant", "toolResult"].contains(&role);
        demand(known, "roles", rules);
    }
    Vec::new()
}
