//! What scripts can do and what comes back.

use serde_json::json;

use super::{check, check_value};

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
