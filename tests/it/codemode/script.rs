//! What scripts can do and what comes back.

use std::sync::Arc;

use serde_json::json;
use steerage::{AbortSignal, codemode::Sandbox};

use super::{Host, check, check_value};

#[test]
fn values_return_as_json() {
    check_value("return {a: [1, 'x', null, true, 1.5]}", json!({"a": [1, "x", null, true, 1.5]}));
    check("return undefined", "nothing");
    check("", "Script the script is empty: write the body of an async function");
    check("return NaN", "null");
    check("return new Map([[1, 2]])", "{}");
    check("return () => 1", "nothing");
    check("return 'a\\ud800b'", "\"a\u{fffd}b\"");
    check("const a = {}; a.a = a; return a", "Script TypeError: circular reference");
    check("return 1n", "Script TypeError: BigInt are forbidden in JSON.stringify");
}

#[test]
fn tools_are_called_and_awaited() {
    check_value("return await tools.echo({x: 1})", json!({"x": 1}));
    check_value("return await tools['echo']({x: 1})", json!({"x": 1}));
    check_value("return await tools.echo()", json!({}));
    check_value(
        "return Promise.all([1, 2, 3].map(n => tools.echo({n})))",
        json!([{"n": 1}, {"n": 2}, {"n": 3}]),
    );
}

#[test]
fn a_failed_call_throws_what_the_tool_says() {
    check(
        "try { await tools.fail() } catch (e) { return [e.name, e.message, e instanceof Error] }",
        r#"["Error","it broke",true]"#,
    );
    check("await tools.fail()", "Script Error: it broke");
}

#[test]
fn errors_have_the_lines_and_columns_of_the_script() {
    check("throw new Error('a')", "Script Error: a\n    at <anonymous> (codemode.js:1:11)");
    check(
        "\n\n  null.x",
        "Script TypeError: cannot read property 'x' of null\n    at <anonymous> (codemode.js:3:3)",
    );
    check(
        "const f = () => {\n throw new TypeError('b') };\nf()",
        "Script TypeError: b\n    at f (codemode.js:2:12)\n    at <anonymous> (codemode.js:3:1)",
    );
    check(
        "return 1 +;",
        "Script SyntaxError: unexpected token in expression: ';'\n    at codemode.js:1:11",
    );
}

#[test]
fn scripts_may_override_on_their_own_objects_what_is_frozen_above_them() {
    check_value(
        "class E extends Error { constructor(m) { super(m); this.name = 'E'; this.message = m + '!' } toString() { return 'E' } }\n\
         const e = new E('a'); return [e.name, e.message, String(e), e instanceof Error, e instanceof E]",
        json!(["E", "a!", "E", true, true]),
    );
    check_value(
        "function P() {} P.prototype.toString = () => 'P'; P.prototype.constructor = 1;\n\
         const o = {}; o.hasOwnProperty = 2; o.valueOf = () => 3; o.constructor = 4;\n\
         return [String(new P()), o.hasOwnProperty, o + 1, o.constructor, new P().constructor]",
        json!(["P", 2, 4, 4, 1]),
    );
    check_value(
        "const o = {}; o.toString = 1; return [Object.keys(o), o]",
        json!([["toString"], {"toString": 1}]),
    );
}

#[test]
fn output_keeps_its_order_and_kind() {
    check(
        "text('a'); text({b: 1}); console.log('c', 1, NaN, null, undefined, [2], {d: 3}); text(4n); text(Symbol('e')); text(undefined)",
        "text \"a\\n{\\\"b\\\":1}\"\nconsole \"c 1 NaN null undefined [2] {\\\"d\\\":3}\"\ntext \"4\\nSymbol(e)\\nundefined\"\nnothing",
    );
    check(
        "\ntry { null.x } catch (e) { console.error('failed:', e) }",
        "console \"failed: TypeError: cannot read property 'x' of null\\n    at <anonymous> (codemode.js:2:7)\"\nnothing",
    );
    check(
        "console.log('a'); throw new Error('b')",
        "console \"a\"\nScript Error: b\n    at <anonymous> (codemode.js:1:29)",
    );
    check("text('a\\ud800')", "text \"a\u{fffd}\"\nnothing");
}

#[test]
fn images_are_checked_by_their_bytes() {
    const GIF: &str = "R0lGODlhAQABAAAAACw=";
    let given = format!("image image/gif {GIF}\nnothing");
    check(&format!("image('data:image/png;base64,{GIF}')"), &given);
    check(&format!("image({{image_url: 'data:;base64,{GIF}'}})"), &given);
    check(&format!("image({{image_url: {{url: 'data:;base64,{GIF}'}}}})"), &given);
    check(&format!("image({{type: 'image', data: '{GIF}', mimeType: 'image/png'}})"), &given);
    for (source, message) in [
        (
            "'https://example.com/a.png'",
            "images of the network are not fetched: pass a data: URL in base64",
        ),
        ("'data:image/png,abc'", "the data: URL of an image must be in base64"),
        ("'data:image/png'", "a data: URL needs a comma before its data"),
        ("'data:image/png;base64,????'", "the image is no base64: Invalid symbol 63, offset 0."),
        ("'data:image/png;base64,aGVsbG8='", "the image is no PNG, JPEG, GIF or WebP"),
        ("1", "image takes a data: URL, an object with image_url, or an image block with data"),
    ] {
        check(
            &format!("try {{ image({source}) }} catch (e) {{ return e.message }}"),
            &format!("{message:?}"),
        );
    }
}

#[test]
fn exit_ends_a_script_without_a_value_and_keeps_its_output() {
    check("text('a'); exit(); text('b')", "text \"a\"\nnothing");
    check("await Promise.all([tools.echo().then(() => exit()), new Promise(() => {})])", "nothing");
}

#[test]
fn what_is_stored_can_be_loaded_as_a_copy() {
    check_value(
        "const a = {n: [1]}; store('k', a); a.n.push(2); const b = load('k'); b.n.push(3);\n\
         store('gone', 1); store('gone', undefined); return [load('k'), load('gone') ?? 'none', load('never') ?? 'none']",
        json!([{"n": [1]}, "none", "none"]),
    );
    check(
        "store('f', () => 1)",
        "Script TypeError: only JSON values can be stored\n    at <anonymous> (codemode.js:1:1)",
    );
}

#[test]
fn an_unknown_tool_is_told_with_names_that_are_near() {
    check(
        "tools.ech",
        "Script TypeError: tools.ech does not exist; did you mean tools.echo?\n    at <anonymous> (codemode.js:1:1)",
    );
    check(
        "tools.read({})",
        "Script TypeError: tools.read does not exist; there are: echo, fail\n    at <anonymous> (codemode.js:1:1)",
    );
    check_value(
        "return ['x' in tools, 'echo' in tools, typeof tools.then, typeof tools.toJSON]",
        json!([false, true, "undefined", "undefined"]),
    );
}

#[test]
fn names_that_are_no_identifiers_are_reached_both_ways() {
    let host = Host::default()
        .with("my-tool", |_, _| Ok(json!("dash")))
        .with("my_tool", |_, _| Ok(json!("underscore")))
        .with("1x", |_, _| Ok(json!("digit")))
        .with("日本", |_, _| Ok(json!("letters")))
        .with("__proto__", |_, _| Ok(json!("proto")));
    let script = "return [await tools.my_tool(), await tools['my-tool'](), await tools._x(), await tools['1x'](), await tools.__(), await tools['日本'](), await tools['__proto__'](), ALL_TOOLS.map(it => it.name)]";
    let execution = Sandbox::default().execute(script, Arc::new(host), &AbortSignal::never());
    assert_eq!(
        execution.result,
        Ok(Some(json!([
            "underscore",
            "dash",
            "digit",
            "digit",
            "letters",
            "letters",
            "proto",
            ["my-tool", "my_tool", "_x", "__", "__proto__"]
        ])))
    );
}

#[test]
fn the_options_line_is_read_and_wrong_ones_are_told() {
    check(
        "// @options: {\"timeout_ms\": 60000, \"max_output_tokens\": 5}\nthrow new Error('x')",
        "Script Error: x\n    at <anonymous> (codemode.js:2:11)",
    );
    for (script, message) in [
        (
            "// @options: {",
            "the options line holds no JSON object: EOF while parsing an object at line 1 column 1",
        ),
        ("// @options: []\n1", "the options line holds no JSON object"),
        (
            "// @options: {\"time\": 1}\n1",
            "there is no option \"time\": only timeout_ms and max_output_tokens",
        ),
        (
            "// @options: {\"timeout_ms\": 0}\n1",
            "timeout_ms must be a whole number from 1 to 2147483647",
        ),
        (
            "// @options: {\"max_output_tokens\": -1}\n1",
            "max_output_tokens must be a whole number from 0 on",
        ),
        (
            "1\n// @options: {}",
            "the options stand on line 2: they must be the first line of the script",
        ),
        ("// @options: {}\n", "the script is empty: write the body of an async function"),
        (" \n\t", "the script is empty: write the body of an async function"),
    ] {
        check(script, &format!("Script {message}"));
    }
}

#[test]
fn a_markdown_fence_around_a_script_is_taken_off() {
    check("```js\nreturn 1\n```", "1");
    check("```\nreturn `a`\n```\n", "\"a\"");
}

#[test]
fn the_language_is_what_scripts_expect() {
    check_value(
        "undeclared = 2; return [globalThis.undeclared, this === globalThis]",
        json!([2, true]),
    );
    check_value(
        "for await (const it of [tools.echo({n: 1}), tools.echo({n: 2})]) undeclared = it; return undeclared",
        json!({"n": 2}),
    );
    check_value(
        "return [...'añ😀'].length + [1, 2, 3].at(-1) + Object.entries({a: 1}).length",
        json!(7),
    );
    check_value("return new Date(0).toISOString()", json!("1970-01-01T00:00:00.000Z"));
}
