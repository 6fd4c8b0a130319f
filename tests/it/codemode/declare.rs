//! Declarations: the TypeScript that is made of the schemas of tools.

use serde_json::{Value, json};
use steerage::codemode::{Declared, declarations};

/// The type of one schema, as it stands in the declaration of a tool that takes it.
fn shape(schema: &Value) -> String {
    let tool = Declared { name: "t", description: "", input: None, output: Some(schema) };
    let text = declarations(&[tool]);
    let start = text.find("Promise<").unwrap() + "Promise<".len();
    let end = text.rfind(">;\n};").unwrap();
    text[start..end].to_owned()
}

#[track_caller]
fn check(schema: Value, expected: &str) {
    assert_eq!(shape(&schema), expected, "{schema}");
}

#[test]
fn plain_types() {
    check(json!({"type": "string"}), "string");
    check(json!({"type": "number"}), "number");
    check(json!({"type": "integer"}), "number");
    check(json!({"type": "boolean"}), "boolean");
    check(json!({"type": "null"}), "null");
    check(json!({"type": "money"}), "unknown");
    check(json!({"type": 7}), "unknown");
    check(json!({}), "unknown");
    check(json!(true), "unknown");
    check(json!(false), "never");
    check(json!(null), "unknown");
    check(json!({"not": {"type": "string"}}), "unknown");
    check(json!({"description": "anything"}), "unknown");
}

#[test]
fn alternatives() {
    check(json!({"type": ["string", "null"]}), "string | null");
    check(json!({"type": ["integer", "number"]}), "number");
    check(json!({"type": []}), "never");
    check(json!({"anyOf": [{"type": "string"}, {"type": "number"}]}), "string | number");
    check(json!({"oneOf": [{"type": "string"}, {"type": "string"}]}), "string");
    check(json!({"anyOf": [{"type": "string"}, {}]}), "unknown");
    check(json!({"anyOf": []}), "never");
    check(json!({"anyOf": [false, {"type": "null"}]}), "null");
    check(
        json!({"type": ["array", "object"], "items": {"type": "string"}}),
        "Array<string> | { [key: string]: unknown; }",
    );
}

#[test]
fn what_is_only_required_in_alternatives_leaves_the_type() {
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        "{ a?: string; }",
    );
}

#[test]
fn constants() {
    check(json!({"const": "a"}), "\"a\"");
    check(json!({"const": 1.5}), "1.5");
    check(json!({"const": null}), "null");
    check(json!({"const": {"a": [1, true]}}), "{\"a\":[1,true]}");
    check(json!({"enum": ["a", "b"]}), "\"a\" | \"b\"");
    check(json!({"enum": ["a", "a", 1, null]}), "\"a\" | 1 | null");
    check(json!({"enum": []}), "never");
    check(json!({"type": "string", "enum": ["say \"hi\"\n"]}), "\"say \\\"hi\\\"\\n\"");
}

#[test]
fn what_counts_first() {
    check(json!({"const": 1, "enum": [2], "type": "string"}), "1");
    check(json!({"enum": [2], "anyOf": [{"type": "string"}]}), "2");
    check(json!({"anyOf": [{"type": "string"}], "allOf": [{"type": "number"}]}), "string");
    check(json!({"$ref": "#/$defs/a", "type": "string", "$defs": {"a": {"type": "null"}}}), "null");
}

#[test]
fn all_of_them_together() {
    let a = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    let b = json!({"type": "object", "properties": {"b": {"type": "number"}}, "required": ["b"]});
    check(json!({"allOf": [a, b]}), "{ a: string; } & { b: number; }");
    check(json!({"allOf": [a]}), "{ a: string; }");
    check(json!({"allOf": [a, {}, {"description": "x"}]}), "{ a: string; }");
    check(json!({"allOf": [{}, true]}), "unknown");
    check(json!({"allOf": []}), "unknown");
    check(
        json!({"allOf": [a, {"anyOf": [b, {"type": "null"}]}]}),
        "{ a: string; } & ({ b: number; } | null)",
    );
    check(json!({"allOf": [{"enum": ["x|y"]}, {"type": "string"}]}), "\"x|y\" & string");
    check(
        json!({"type": "object", "properties": {"c": {"type": "boolean"}}, "allOf": [a]}),
        "{ c?: boolean; } & { a: string; }",
    );
}

#[test]
fn lists() {
    check(json!({"type": "array", "items": {"type": "string"}}), "Array<string>");
    check(json!({"type": "array"}), "unknown[]");
    check(json!({"type": "array", "items": true}), "unknown[]");
    check(json!({"type": "array", "items": false}), "[]");
    check(json!({"type": "array", "items": {"type": ["string", "null"]}}), "Array<string | null>");
    check(json!({"items": {"type": "number"}}), "Array<number>");
    check(
        json!({"type": "array", "items": {"type": "array", "items": {"type": "number"}}}),
        "Array<Array<number>>",
    );
}

#[test]
fn tuples() {
    let (a, b) = (json!({"type": "string"}), json!({"type": "number"}));
    check(json!({"type": "array", "prefixItems": [a, b]}), "[string, number]");
    check(
        json!({"type": "array", "prefixItems": [a, b], "items": false, "minItems": 2}),
        "[string, number]",
    );
    check(json!({"type": "array", "prefixItems": [a], "items": b}), "[string, ...Array<number>]");
    check(json!({"type": "array", "items": [a, b]}), "[string, number]");
    check(
        json!({"type": "array", "items": [a], "additionalItems": b}),
        "[string, ...Array<number>]",
    );
    check(json!({"prefixItems": []}), "[]");
}

#[test]
fn objects() {
    check(
        json!({"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "number"}}, "required": ["a"]}),
        "{ a: number; b?: string; }",
    );
    check(json!({"properties": {"a": {}}}), "{ a?: unknown; }");
    check(json!({"type": "object"}), "{ [key: string]: unknown; }");
    check(json!({"type": "object", "properties": {}}), "{ [key: string]: unknown; }");
    check(json!({"type": "object", "additionalProperties": false}), "{}");
    check(
        json!({"type": "object", "additionalProperties": {"type": "number"}}),
        "{ [key: string]: number; }",
    );
    check(json!({"type": "object", "additionalProperties": true}), "{ [key: string]: unknown; }");
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": true}),
        "{ a: string; [key: string]: unknown; }",
    );
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "number"}}),
        "{ a?: string; [key: string]: number | string | undefined; }",
    );
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
        "{ a?: string; }",
    );
    check(
        json!({"type": "object", "patternProperties": {"^x": {"type": "number"}}}),
        "{ [key: string]: number; }",
    );
    check(
        json!({"type": "object", "properties": {"a-b": {}, "1": {}, "a b": {}, "$x_1": {}, "": {}}}),
        "{ \"\"?: unknown; $x_1?: unknown; \"1\"?: unknown; \"a b\"?: unknown; \"a-b\"?: unknown; }",
    );
    check(
        json!({"type": "object", "properties": [], "required": "a"}),
        "{ [key: string]: unknown; }",
    );
}

#[test]
fn references() {
    let defs = json!({"a": {"type": "string"}, "b": {"$ref": "#/$defs/a"}, "a/b": {"type": "null"}, "c d": {"type": "number"}});
    let with = |reference: &str| json!({"$ref": reference, "$defs": defs});
    check(with("#/$defs/a"), "string");
    check(with("#/$defs/b"), "string");
    check(with("#/$defs/a~1b"), "null");
    check(with("#/$defs/c%20d"), "number");
    check(with("#/$defs/none"), "unknown");
    check(with("https://example.com/a.json"), "unknown");
    check(with("#a"), "unknown");
    check(json!({"$ref": "#"}), "unknown");
    check(json!({"$ref": "#/$ref"}), "unknown");
}

#[test]
fn recursion_ends() {
    check(json!({"type": "object", "properties": {"next": {"$ref": "#"}}}), "{ next?: unknown; }");
    check(
        json!({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}}),
        "{ next?: unknown; }",
    );
    check(
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        "unknown",
    );
    let mut deep = json!({"type": "string"});
    for _ in 0..100 {
        deep = json!({"type": "array", "items": deep});
    }
    assert!(shape(&deep).contains("Array<unknown>"));
    // Each level doubles what the one above it says.
    let mut defs = json!({"d0": {"type": "string"}});
    for level in 1..40 {
        let below = json!({"$ref": format!("#/$defs/d{}", level - 1)});
        defs[format!("d{level}")] = json!({"type": "array", "prefixItems": [below, below]});
    }
    assert!(shape(&json!({"$ref": "#/$defs/d39", "$defs": defs})).len() < 2000);
}

#[test]
fn descriptions_and_constraints_are_comments() {
    check(
        json!({
            "type": "object", "required": ["q"],
            "properties": {
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
                "q": {"type": "string", "description": "Search terms"},
                "plain": {"type": "boolean"},
            },
        }),
        "{\n    // @integer @minimum 1 @maximum 50 @default 10\n    limit?: number;\n    plain?: boolean;\n    // Search terms\n    q: string;\n  }",
    );
}

/// The comment of the property `a`.
#[track_caller]
fn comment(schema: Value, expected: &str) {
    let shape = shape(&json!({"type": "object", "properties": {"a": schema}}));
    let lines: Vec<&str> =
        shape.lines().map(str::trim).filter(|line| line.starts_with("//")).collect();
    assert_eq!(lines.join("\n"), expected, "{shape}");
}

#[test]
fn every_tag() {
    comment(
        json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1.5}),
        "// @exclusiveMinimum 0 @exclusiveMaximum 1.5",
    );
    comment(
        json!({"type": "number", "minimum": 0, "exclusiveMinimum": true}),
        "// @exclusiveMinimum 0",
    );
    comment(json!({"type": "number", "maximum": 9, "exclusiveMaximum": false}), "// @maximum 9");
    comment(json!({"type": "number", "multipleOf": 0.01}), "// @multipleOf 0.01");
    comment(
        json!({"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a", "format": "uri"}),
        "// @minLength 1 @maxLength 9 @pattern ^a @format uri",
    );
    comment(
        json!({"type": "array", "minItems": 1, "maxItems": 2, "uniqueItems": true}),
        "// @minItems 1 @maxItems 2 @uniqueItems",
    );
    comment(
        json!({"type": "string", "default": "x", "deprecated": true}),
        "// @default \"x\" @deprecated",
    );
    comment(json!({"type": "string", "default": null}), "");
    comment(
        json!({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]}),
        "// @integer @minimum 3",
    );
    comment(json!({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "string"}]}), "");
    comment(json!({"type": ["integer", "null"]}), "// @integer");
    comment(json!({"type": "string", "pattern": "x".repeat(80)}), "");
    comment(json!({"type": "string", "minLength": "3"}), "");
    comment(
        json!({"description": "one\n\n  two", "type": "integer"}),
        "// one\n//\n//   two\n// @integer",
    );
    comment(json!({"type": "string", "pattern": "a\nb"}), "");
}

#[test]
fn blocks_in_blocks_are_indented() {
    let inner = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let input = json!({"type": "object", "properties": {"list": {"type": "array", "items": inner}, "one": inner}});
    let tool = Declared { name: "t", description: "", input: Some(&input), output: None };
    assert_eq!(
        declarations(&[tool]),
        "\
declare const tools: {
  t(args?: { list?: Array<{
    // @integer
    x?: number;
  }>; one?: {
    // @integer
    x?: number;
  }; }): Promise<unknown>;
};
"
    );
    let input =
        json!({"type": "object", "properties": {"one": {"description": "One", "allOf": [inner]}}});
    let tool = Declared { name: "t", description: "", input: Some(&input), output: None };
    assert_eq!(
        declarations(&[tool]),
        "\
declare const tools: {
  t(args?: {
    // One
    one?: {
      // @integer
      x?: number;
    };
  }): Promise<unknown>;
};
"
    );
}

fn named<'a>(name: &'a str, description: &'a str) -> Declared<'a> {
    Declared { name, description, input: None, output: None }
}

#[test]
fn names_and_descriptions_of_tools() {
    assert_eq!(
        declarations(&[
            named("my-tool", "Ends */ here"),
            named("my_tool", "Two\n\n lines"),
            named("my.tool", ""),
            named("my_tool", "again"),
            named("1x", " "),
        ]),
        "\
declare const tools: {
  /** Ends *\\/ here */
  \"my-tool\"(args: unknown): Promise<unknown>;
  /**
   * Two
   *
   *  lines
   */
  my_tool(args: unknown): Promise<unknown>;
  \"my.tool\"(args: unknown): Promise<unknown>;
  _x(args: unknown): Promise<unknown>;
};
"
    );
    assert_eq!(declarations(&[]), "declare const tools: {\n};\n");
}

#[test]
fn huge_inputs_lose_their_comments_and_then_their_type() {
    let properties = |count: usize| -> Value {
        let property = json!({"type": "string", "description": "d".repeat(100)});
        (0..count)
            .map(|n| (format!("property{n}"), property.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let declared = |count: usize| {
        let input = json!({"type": "object", "properties": properties(count)});
        declarations(&[Declared { name: "t", description: "", input: Some(&input), output: None }])
    };
    assert!(declared(10).contains("// ddd"));
    assert!(!declared(300).contains("// ddd"));
    assert!(declared(300).contains("property299?: string;"));
    assert!(declared(3000).contains("t(args?: unknown)"));
}
