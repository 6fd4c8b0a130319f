//! Attempts to get out, to falsify what is reported, or to break the bridge. Each must come to nothing.

use super::check;

/// One test for each attempt: the script, and what it gives.
macro_rules! attempts {
    ($($name:ident: $script:expr => $given:expr;)*) => {
        $(#[test] fn $name() { check($script, $given); })*
    };
}

attempts! {
    a_patched_array_method_is_not_used:
        "Array.prototype.map = () => 'x'; return [1].map(n => n)"
        => "[1]";
    a_patch_in_strict_mode_throws:
        "'use strict';\nArray.prototype.map = () => 'x'"
        => "Script TypeError: 'map' is read-only\n    at <anonymous> (codemode.js:2:1)";
    object_prototype_takes_no_property:
        "Object.prototype.evil = 1; return ({}).evil ?? 'none'"
        => "\"none\"";
    object_prototype_takes_no_definition:
        "Object.defineProperty(Object.prototype, 'evil', {value: 1})"
        => "Script TypeError: object is not extensible\n    at <anonymous> (codemode.js:1:23)";
    proto_leads_to_nothing_that_can_be_changed:
        "({}).__proto__.evil = 1; return ({}).evil ?? 'none'"
        => "\"none\"";
    prototypes_keep_their_prototypes:
        "Object.setPrototypeOf(Array.prototype, null)"
        => "Script TypeError: object is not extensible\n    at <anonymous> (codemode.js:1:23)";
    a_patched_then_is_not_used:
        "Promise.prototype.then = () => 'x'; return tools.echo({a: 1})"
        => "{\"a\":1}";
    a_patched_promise_constructor_is_not_used:
        "Promise.resolve = Promise.reject = () => 'x'; Promise = 1; return tools.echo({a: 1})"
        => "{\"a\":1}";
    a_patched_species_is_refused:
        "Object.defineProperty(Promise, Symbol.species, {value: 1})"
        => "Script TypeError: property is not configurable\n    at <anonymous> (codemode.js:1:32)";
    a_patched_map_does_not_break_the_calls:
        "Map.prototype.get = Map.prototype.set = () => 'x'; return tools.echo({a: 1})"
        => "{\"a\":1}";
    a_patched_call_and_apply_are_not_used:
        "Function.prototype.call = Function.prototype.apply = Reflect.apply = () => 'x'; return tools.echo({a: 1})"
        => "{\"a\":1}";
    a_patched_freeze_changes_nothing:
        "Object.freeze = Object.isFrozen = it => it; return Object.isFrozen(Array.prototype)"
        => "true";
    hidden_prototypes_are_frozen_too:
        "const hidden = [async function* () {}, function* () {}, async () => {}, [].values(), ''.matchAll(/a/g), new Map().keys(), new Set().keys(), ''[Symbol.iterator](), Iterator.from([]).map(it => it)];\nreturn hidden.map(it => Object.isFrozen(Object.getPrototypeOf(it))).every(Boolean)"
        => "true";
    every_built_in_that_can_be_reached_is_frozen:
        "const seen = new Set(), open = Reflect.ownKeys(globalThis).map(key => globalThis[key]), soft = [];\nwhile (open.length) {\n  const it = open.pop();\n  if (Object(it) !== it || seen.has(it) || it === globalThis) continue;\n  seen.add(it);\n  if (it === seen || it === open || it === soft) continue;\n  if (!Object.isFrozen(it)) soft.push(String(it));\n  open.push(Object.getPrototypeOf(it));\n  for (const key of Reflect.ownKeys(it)) { const {value, get, set} = Object.getOwnPropertyDescriptor(it, key); open.push(value, get, set) }\n}\nreturn [seen.size > 500, soft]"
        => "[true,[]]";
    a_patched_stringify_does_not_falsify_the_result:
        "JSON.stringify = () => '1'; return {a: 1}"
        => "{\"a\":1}";
    another_json_does_not_falsify_the_result:
        "globalThis.JSON = {stringify: () => '1'}; return {a: 1}"
        => "{\"a\":1}";
    a_patched_parse_does_not_falsify_what_tools_give:
        "JSON.parse = () => 'x'; return tools.echo({a: 1})"
        => "{\"a\":1}";
    to_json_cannot_be_put_on_arrays:
        "Array.prototype.toJSON = () => 'x'; return [1]"
        => "[1]";
    to_json_cannot_be_put_on_texts:
        "String.prototype.toJSON = () => 'x'; return 'a'"
        => "\"a\"";
    to_json_cannot_be_put_on_objects:
        "Object.prototype.toJSON = () => 'x'; return {a: 1}"
        => "{\"a\":1}";
    to_json_of_an_argument_is_the_argument:
        "return tools.echo({toJSON: () => ({b: 1})})"
        => "{\"b\":1}";
    to_json_that_gives_a_function_is_refused:
        "return tools.echo({toJSON: () => tools.echo})"
        => "Script TypeError: the argument of echo is no JSON value\n    at <anonymous> (codemode.js:1:13)";
    the_constructor_of_functions_makes_scripts_only:
        "return (() => {}).constructor('return typeof process + typeof require + typeof fetch')()"
        => "\"undefinedundefinedundefined\"";
    the_constructor_of_async_functions_makes_scripts_only:
        "return (async () => {}).constructor('return typeof process')()"
        => "\"undefined\"";
    the_constructor_of_generators_makes_scripts_only:
        "return [...(function* () {}).constructor('yield typeof process')()]"
        => "[\"undefined\"]";
    the_constructor_of_a_tool_makes_scripts_only:
        "return tools.echo.constructor('return typeof bridge')()"
        => "\"undefined\"";
    eval_sees_the_script_only:
        "return eval('typeof process + typeof std + typeof os + typeof bridge')"
        => "\"undefinedundefinedundefinedundefined\"";
    indirect_eval_sees_the_globals_only:
        "return (0, eval)('this') === globalThis && (0, eval)('typeof bridge')"
        => "\"undefined\"";
    nothing_can_be_imported:
        "return import('fs')"
        => "Script ReferenceError: could not load module 'fs'";
    nothing_of_the_engine_can_be_imported:
        "return Promise.allSettled([import('std'), import('os'), import('qjs:std')]).then(all => all.map(it => it.status))"
        => "[\"rejected\",\"rejected\",\"rejected\"]";
    no_file_can_be_imported:
        "return import('./Cargo.toml')"
        => "Script ReferenceError: could not load module 'Cargo.toml'";
    no_url_can_be_imported:
        "return import('data:text/javascript,1')"
        => "Script ReferenceError: could not load module 'data:text/javascript,1'";
    eval_cannot_import_either:
        "return eval('import(\"os\")')"
        => "Script ReferenceError: could not load module 'os'";
    an_import_statement_does_not_parse:
        "import x from 'fs'"
        => "Script SyntaxError: Unexpected identifier 'x'\n    at codemode.js:1:8";
    nothing_of_a_host_is_there:
        "return ['fetch', 'setTimeout', 'process', 'require', 'module', 'WebAssembly', 'std', 'os', 'print', 'gc', 'Deno', 'Bun', 'navigator', 'scriptArgs', 'Worker'].filter(it => it in globalThis)"
        => "[]";
    a_script_that_breaks_out_of_its_function_is_in_the_same_world:
        "}); globalThis.out = typeof bridge; (async function () { return globalThis.out"
        => "\"undefined\"";
    a_script_cannot_sleep:
        "return Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0)"
        => "Script TypeError: cannot block in this thread\n    at <anonymous> (codemode.js:1:40)";
    waking_nobody_is_harmless:
        "return Atomics.notify(new Int32Array(new SharedArrayBuffer(8)), 0)"
        => "0";
    a_proxy_as_argument_is_read_once:
        "return tools.echo(new Proxy({a: 1}, {get: (target, key) => key === 'a' ? 2 : target[key]}))"
        => "{\"a\":2}";
    a_throwing_trap_fails_the_call:
        "return tools.echo(new Proxy({}, {ownKeys() { throw 'trap' }}))"
        => "Script trap";
    a_throwing_getter_fails_the_call:
        "return tools.echo({get a() { throw 'getter' }})"
        => "Script getter";
    a_circular_argument_is_refused:
        "const a = {}; a.a = a; return tools.echo(a)"
        => "Script TypeError: circular reference\n    at <anonymous> (codemode.js:1:42)";
    a_function_is_no_argument:
        "return tools.echo(() => 1)"
        => "Script TypeError: the argument of echo is no JSON value\n    at <anonymous> (codemode.js:1:13)";
    a_symbol_is_no_argument:
        "return tools.echo(Symbol('a'))"
        => "Script TypeError: the argument of echo is no JSON value\n    at <anonymous> (codemode.js:1:18)";
    a_prototype_is_not_sent:
        "return tools.echo({__proto__: {a: 1}, b: 2})"
        => "{\"b\":2}";
    a_key_named_proto_is_data:
        "return tools.echo(JSON.parse('{\"__proto__\": {\"evil\": 1}}')).then(it => [it.evil ?? 'none', Object.keys(it)])"
        => "[\"none\",[\"__proto__\"]]";
    a_zero_character_ends_nothing:
        "return tools.echo('a\\u0000b')"
        => "\"a\\u0000b\"";
    half_surrogate_pairs_are_replaced:
        "return tools.echo({'\\ud800': '\\udfff'})"
        => "{\"�\":\"�\"}";
    a_throwing_getter_in_the_result_is_an_error:
        "return {get a() { throw 'getter' }}"
        => "Script getter";
    a_throwing_proxy_as_result_is_an_error:
        "return new Proxy({}, {ownKeys() { throw 'trap' }})"
        => "Script trap";
    a_thenable_as_result_is_awaited:
        "return {then(resolve) { resolve('then') }}"
        => "\"then\"";
    an_error_that_cannot_be_read_is_still_an_error:
        "throw {get message() { throw 1 }, toString() { throw 2 }, toJSON() { throw 3 }}"
        => "Script the script threw a value that cannot be shown";
    a_proxy_of_an_error_is_still_an_error:
        "throw new Proxy(new Error('a'), {get() { throw 1 }})"
        => "Script the script threw a value that cannot be shown";
    an_error_with_a_symbol_as_name_is_still_an_error:
        "const e = new Error('a'); e.name = Symbol('x'); throw e"
        => "Script the script threw a value that cannot be shown";
    an_object_without_a_prototype_can_be_thrown:
        "throw Object.create(null)"
        => "Script {}";
    null_can_be_thrown:
        "throw null"
        => "Script out of memory, or the script threw null";
    a_stack_hook_gets_no_functions_of_the_prelude:
        "Error.prepareStackTrace = (error, frames) => frames; try { tools.nothing } catch (e) { return typeof e.stack + typeof Error.captureStackTrace }"
        => "\"stringundefined\"";
    a_stack_hook_cannot_be_defined:
        "Object.defineProperty(Error, 'prepareStackTrace', {value: (e, frames) => frames})"
        => "Script TypeError: object is not extensible\n    at <anonymous> (codemode.js:1:23)";
    symbols_of_tools_are_plain:
        "return [Symbol.iterator in tools, `${tools}`, JSON.stringify(tools), typeof tools.then]"
        => "[false,\"[object Object]\",\"{}\",\"undefined\"]";
    well_known_symbols_stay:
        "Symbol.iterator = 1; return [...[1]]"
        => "[1]";
    species_of_arrays_stay:
        "Array[Symbol.species] = 1; return [1].map(n => n)"
        => "[1]";
    the_bridge_is_no_global:
        "return Reflect.ownKeys(globalThis).filter(it => /bridge|setup|prelude|rust|settle/i.test(String(it)))"
        => "[]";
    callers_are_hidden:
        "return [() => text.caller, () => arguments.callee.caller, () => tools.echo.arguments].map(it => { try { return it() } catch (e) { return e.name } })"
        => "[\"TypeError\",\"TypeError\",\"TypeError\"]";
    a_function_has_no_caller:
        "return typeof (function f() { return f.caller })()"
        => "\"undefined\"";
    functions_of_the_prelude_take_no_properties:
        "text.call = 1; tools.echo.x = 1; return [text.call === Function.prototype.call, tools.echo.x ?? 'none']"
        => "[true,\"none\"]";
    tostring_of_an_output_is_called_in_the_script:
        "const all = []; text({toJSON() { all.push(typeof bridge); return 'x' }}); return all"
        => "text \"\\\"x\\\"\"\n[\"undefined\"]";
    tools_cannot_be_added:
        "tools.mine = 1"
        => "Script TypeError: tools cannot be changed, so tools.mine cannot be set\n    at <anonymous> (codemode.js:1:1)";
    tools_cannot_be_defined:
        "Object.defineProperty(tools, 'mine', {value: 1})"
        => "Script TypeError: object is not extensible\n    at <anonymous> (codemode.js:1:23)";
    tools_cannot_be_removed:
        "delete tools.echo; return typeof tools.echo"
        => "\"function\"";
    tools_keep_their_prototype:
        "Object.setPrototypeOf(tools, {a: 1})"
        => "Script TypeError: object is not extensible\n    at <anonymous> (codemode.js:1:23)";
    the_world_cannot_be_replaced:
        "tools = {}; text = 1; console = 2; console.log = 3; return [typeof tools.echo, typeof text, typeof console.log]"
        => "[\"function\",\"function\",\"function\"]";
    the_list_of_tools_cannot_be_changed:
        "ALL_TOOLS[0].name = 'x'; try { ALL_TOOLS.push(1) } catch {} return ALL_TOOLS.map(it => it.name)"
        => "[\"echo\",\"fail\"]";
    clearing_every_global_changes_nothing:
        "for (const key of Reflect.ownKeys(globalThis)) { try { globalThis[key] = undefined; delete globalThis[key] } catch {} }\nreturn tools.echo({a: 1})"
        => "{\"a\":1}";
    redefining_every_global_changes_nothing:
        "for (const key of Reflect.ownKeys(globalThis)) { try { Object.defineProperty(globalThis, key, {value: 1}) } catch {} }\nreturn tools.echo({a: 1})"
        => "{\"a\":1}";
    exit_cannot_be_caught_away:
        "try { exit() } catch { text('caught') } finally { text('after') } return 1"
        => "nothing";
    a_finished_script_does_not_come_back:
        "Promise.resolve().then(() => Promise.resolve()).then(() => text('late')); return 1"
        => "1";
    a_rejection_that_nobody_handles_is_ignored:
        "Promise.reject(new Error('nobody cares')); return 1"
        => "1";
    weak_references_reach_nothing:
        "new FinalizationRegistry(() => { throw 1 }).register({}, 1); return new WeakRef(globalThis).deref() === globalThis"
        => "true";
}
