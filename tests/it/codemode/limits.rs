//! Every limit of a script, and that its thread really ends.

use std::{
    sync::{Arc, Barrier, Mutex, mpsc},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use steerage::{
    AbortController, AbortSignal,
    codemode::{CallStatus, Execution, Limits, Sandbox, ScriptErrorKind, ScriptHost},
};

use super::{Host, check, check_value, execute, told};

/// So long at most for what comes at once on an idle machine.
const BOUND: Duration = Duration::from_mins(1);

fn execute_with(limits: Limits, host: Host, script: &str) -> Execution {
    Sandbox::new(limits).execute(script, Arc::new(host), &AbortSignal::never())
}

fn within(milliseconds: u64) -> Limits {
    Limits { time: Some(Duration::from_millis(milliseconds)), ..Limits::default() }
}

/// A host that tells when the script's thread has dropped it.
fn watched() -> (Host, mpsc::Receiver<()>) {
    struct Told(mpsc::Sender<()>);
    impl Drop for Told {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (sender, ended) = mpsc::channel();
    let told = Mutex::new(Told(sender));
    let host = Host::new().with("held", move |_, _| {
        let _told = told.lock();
        Ok(Value::Null)
    });
    (host, ended)
}

/// The script is stopped at its deadline, and its thread ends.
#[track_caller]
fn stops(script: &str) {
    let (host, ended) = watched();
    let execution = execute_with(within(200), host, script);
    let error = execution.result.unwrap_err();
    assert_eq!(error.kind, ScriptErrorKind::Timeout, "{script}");
    assert_eq!(error.message, "the script took longer than 200 ms");
    assert_eq!(ended.recv_timeout(BOUND), Ok(()), "the thread runs on: {script}");
}

/// The script itself is refused, fast.
#[track_caller]
fn refuses(script: &str, message: &str) {
    let error = execute(script).result.unwrap_err();
    assert_eq!(error.kind, ScriptErrorKind::Script, "{script}");
    assert!(error.to_string().contains(message), "{script}: {error}");
}

#[test]
fn endless_loops_stop() {
    stops("while (true) {}");
    stops("for (;;) { try { while (true) {} } catch {} finally {} }");
    stops("await null; while (true) {}");
    stops("await tools.echo(); while (true) {}");
    stops("return {toJSON() { while (true) {} }}");
    stops(
        "throw {get message() { while (true) {} }, toString() { while (true) {} }, toJSON() { while (true) {} }}",
    );
}

#[test]
fn endless_chains_of_promises_stop() {
    stops("while (true) await null");
    stops("const next = () => Promise.resolve().then(next); await next()");
    stops("const next = () => { queueMicrotask(next) }; next(); await new Promise(() => {})");
    stops("await {then(resolve) { resolve(this) }}");
}

#[test]
fn slow_built_ins_stop() {
    stops("/^(a+)+$/.test('a'.repeat(40) + 'b')");
    stops(
        "const list = Array.from({length: 1e4}, (_, n) => n); while (true) list.sort((a, b) => b - a)",
    );
    stops("new Array(4e9).indexOf(1)");
    stops("[].forEach.call({length: 2 ** 53 - 1}, () => {})");
    stops("let list = []; for (let n = 0; n < 40; n++) list = [list, list]; list.flat(Infinity)");
    stops("let list = []; for (let n = 0; n < 40; n++) list = [list, list]; JSON.stringify(list)");
    stops("let list = []; for (let n = 0; n < 40; n++) list = [list, list]; return list");
    stops("String.raw({raw: {length: 2 ** 53 - 1}})");
    stops("Reflect.ownKeys(new Proxy({}, {ownKeys() { while (true) {} }}))");
}

#[test]
fn quadratic_searches_in_texts_are_refused() {
    let texts = "const text = 'a'.repeat(4e5), part = 'a'.repeat(2e5) + 'b';";
    for call in [
        "text.indexOf(part)",
        "text.lastIndexOf(part)",
        "text.includes(part)",
        "text.split(part)",
        "text.replace(part, '')",
        "text.replaceAll(part, '')",
        "text.split({toString: () => part})",
        "''.indexOf.call({toString: () => text}, part)",
    ] {
        refuses(
            &format!("{texts} {call}"),
            "searching 200001 characters in 400000 would take too long",
        );
    }
    let marks = "('a' + '\\u0301\\u0327'.repeat(5e4))";
    refuses(&format!("{marks}.normalize('NFC')"), "combining marks");
    refuses(&format!("{marks}.localeCompare('a')"), "combining marks");
    refuses(&format!("'a'.localeCompare({marks})"), "combining marks");
}

#[test]
fn what_reaches_for_endless_lists_is_refused() {
    let methods = [
        "reverse()",
        "fill(0)",
        "copyWithin(0, 1)",
        "shift()",
        "unshift(1)",
        "splice(0, 1)",
        "slice()",
        "sort()",
        "join()",
        "flat()",
        "toSorted()",
        "toReversed()",
        "toSpliced(0)",
        "with(0, 0)",
    ];
    for method in methods {
        let (name, arguments) = method.split_once('(').unwrap();
        let arguments = arguments.trim_end_matches(')');
        let call = format!("Array.prototype.{name}.apply({{length: 2 ** 53 - 1}}, [{arguments}])");
        refuses(&call, "too long for this");
    }
    refuses("[].concat(new Array(4e9))", "too long for this");
    refuses(
        "[].concat({[Symbol.isConcatSpreadable]: true, length: 2 ** 53 - 1})",
        "too long for this",
    );
    refuses("[].values.call({length: 2 ** 53 - 1}).drop(1e15)", "too long for this");
}

#[test]
fn lists_that_compute_their_length_are_refused() {
    let lists = [
        "{get length() { return n++ ? 2 ** 53 - 1 : 1 }}",
        "Object.create({get length() { return n++ ? 2 ** 53 - 1 : 1 }})",
        "Object.setPrototypeOf(new Uint8Array(1), {get length() { return n++ ? 2 ** 53 - 1 : 1 }})",
        "new Proxy([], {get(list, key) { return key === 'length' && n++ ? 2 ** 53 - 1 : list[key] }})",
        "Object.create(new Proxy({}, {get() { return n++ ? 2 ** 53 - 1 : 1 }}))",
    ];
    let methods = [
        "reverse()",
        "fill(0)",
        "copyWithin(0, 1)",
        "shift()",
        "unshift(1)",
        "splice(0, 1)",
        "slice()",
        "sort()",
        "join()",
        "toLocaleString()",
        "toSorted()",
        "toReversed()",
        "toSpliced(0)",
        "with(0, 0)",
    ];
    for list in lists {
        for method in methods {
            let (name, arguments) = method.split_once('(').unwrap();
            let arguments = arguments.trim_end_matches(')');
            let call = format!("let n = 0; [].{name}.apply({list}, [{arguments}])");
            refuses(&call, "a list that computes its length");
        }
        stops(&format!(
            "let n = 1; const list = {list}; Object.defineProperty(list, Symbol.isConcatSpreadable, {{value: true}});\
             while (true) try {{ [].concat(list) }} catch {{}}"
        ));
    }
}

#[test]
fn guarded_built_ins_do_what_they_always_did() {
    check_value(
        "return ['abcabc'.indexOf('c', 3), 'abc'.includes('b'), 'aba'.lastIndexOf('a', 1)]",
        json!([5, true, 0]),
    );
    check_value("return 'a-b-c'.split('-', 2)", json!(["a", "b"]));
    check_value("return 'a1b2'.split(/\\d/)", json!(["a", "b", ""]));
    check_value(
        "return ['aXbX'.replace('X', '$&!'), 'aXbX'.replaceAll('X', (m) => m + m)]",
        json!(["aX!bX", "aXXbXX"]),
    );
    check_value("return 'abc'.split()", json!(["abc"]));
    check_value("return ['null'.indexOf(null), 'undefined'.indexOf()]", json!([0, 0]));
    check_value("return [1, [2, [3, [4]]]].flat()", json!([1, 2, [3, [4]]]));
    check_value("return [1, [2, [3, [4]]]].flat(Infinity)", json!([1, 2, 3, 4]));
    check_value(
        "return [[1], [2].concat({[Symbol.isConcatSpreadable]: true, length: 2, 0: 'x', 1: 'y'}, new Proxy([3], {}), 4)]",
        json!([[1], [2, "x", "y", 3, 4]]),
    );
    check_value(
        "const plain = [1]; plain[Symbol.isConcatSpreadable] = false; return [[].concat(plain).length, 0 in [].concat([,1])]",
        json!([1, false]),
    );
    check_value("return [].join.call(new Uint8Array([1, 2]), '-')", json!("1-2"));
    check_value("return [].slice.call({length: 2, 0: 'a', 1: 'b'})", json!(["a", "b"]));
    check_value("return [].join.call({})", json!(""));
    check_value("class List extends Array {} return List.of(3, 1).sort().join()", json!("1,3"));
    check_value("return [1, 2, 3].values().drop(1).toArray()", json!([2, 3]));
    check_value("return ['a'.localeCompare('b'), 'ä'.localeCompare('a\\u0308')]", json!([-1, 0]));
    check_value("return [1, 2].flatMap(n => [n, [n]])", json!([1, [1], 2, [2]]));
    check_value("return [3, 1, 2].sort().concat([4], 5).reverse().slice(1, 3)", json!([4, 3]));
    check_value("return Array.prototype.slice.call('abc', 1)", json!(["b", "c"]));
    check_value("return (function () { return [].slice.call(arguments) })(1, 2)", json!([1, 2]));
    check_value("return String.raw`a\\n${1}b`", json!("a\\n1b"));
    check_value("return 'e\\u0301'.normalize('NFC')", json!("é"));
    check_value(
        "return [JSON.stringify({a: [1, {b: 2}]}, null, 1), JSON.stringify({a: 1, b: 2}, ['b'])]",
        json!(["{\n \"a\": [\n  1,\n  {\n   \"b\": 2\n  }\n ]\n}", "{\"b\":2}"]),
    );
    check_value(
        "return [[].flat.name, [].slice.length, ''.split.length, ''.indexOf.name]",
        json!(["flat", 2, 2, "indexOf"]),
    );
    check(
        "return [undefined].includes.call(null, 1)",
        "Script TypeError: Cannot convert undefined or null to object\n    at <anonymous> (codemode.js:1:33)",
    );
}

#[test]
fn memory_is_limited_and_running_out_of_it_can_be_caught() {
    let small = || Limits { memory: 8 << 20, ..Limits::default() };
    let told = |script: &str| told(&execute_with(small(), Host::new(), script));
    assert_eq!(
        told("try { new Uint8Array(1e8) } catch (e) { return String(e) }"),
        "\"InternalError: out of memory\""
    );
    assert_eq!(
        told(
            "try { let s = 'abc'; const all = []; while (true) all.push(s += s + all.length) } catch { return 'caught' }"
        ),
        "\"caught\""
    );
    assert!(told("const all = []; while (true) all.push({})").contains("out of memory"));
    assert!(
        told("const all = []; while (true) { await null; all.push(new Array(100).fill(0)) }")
            .contains("out of memory")
    );
}

#[test]
fn deep_recursion_can_be_caught() {
    for script in [
        "const f = () => f(); try { f() } catch (e) { return String(e) }",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; try { JSON.stringify(a) } catch (e) { return String(e) }",
        "try { JSON.parse('['.repeat(1e6)) } catch (e) { return String(e) }",
    ] {
        check(script, "\"RangeError: Maximum call stack size exceeded\"");
    }
}

#[test]
fn huge_numbers_are_refused() {
    refuses("let n = 3n; while (true) n = n ** 9n", "BigInt");
}

#[test]
fn a_promise_that_nothing_can_settle_is_found() {
    for script in [
        "await new Promise(() => {})",
        "await Promise.race([])",
        "await tools.echo(); await new Promise(() => {})",
    ] {
        refuses(script, "a promise that nothing can settle");
    }
}

#[test]
fn calls_run_at_the_same_time() {
    let barrier = Arc::new(Barrier::new(2));
    let meet = move |_: &_, _: &_| {
        barrier.wait();
        Ok(json!("met"))
    };
    let host = Host::new().with("meet", meet);
    let script = "return Promise.all([tools.meet(), tools.meet()])";
    assert_eq!(
        execute_with(Limits::default(), host, script).result,
        Ok(Some(json!(["met", "met"])))
    );
}

#[test]
fn the_call_that_ends_first_settles_first() {
    let (release, gate) = mpsc::channel();
    let (release, gate) = (Mutex::new(release), Mutex::new(gate));
    let host = Host::new()
        .with("slow", move |_, _| {
            gate.lock().unwrap().recv().unwrap();
            Ok(json!("slow"))
        })
        .with("release", move |_, _| {
            release.lock().unwrap().send(()).unwrap();
            Ok(json!("released"))
        });
    let script = "const order = [];\n\
                  const slow = tools.slow().then(it => order.push(it));\n\
                  await tools.echo().then(() => order.push('fast'));\n\
                  order.push(await tools.release()); await slow; return order";
    let execution = execute_with(Limits::default(), host, script);
    // Which of the two that end together is first is not said.
    let mut order: Vec<String> =
        serde_json::from_value(execution.result.unwrap().unwrap()).unwrap();
    assert_eq!(order.remove(0), "fast");
}

#[test]
fn no_more_calls_than_allowed_run_at_once() {
    let running = Arc::new(Mutex::new((0, 0)));
    let counted = running.clone();
    let (told, seen) = mpsc::channel();
    let told = Mutex::new(told);
    let host = Host::new().with("count", move |_, _| {
        {
            let mut running = counted.lock().unwrap();
            running.0 += 1;
            running.1 = running.1.max(running.0);
        }
        told.lock().unwrap().send(()).unwrap();
        counted.lock().unwrap().0 -= 1;
        Ok(Value::Null)
    });
    let limits = Limits { calls_at_once: 3, ..Limits::default() };
    let script = "await Promise.all(Array.from({length: 50}, () => tools.count())); return 1";
    assert_eq!(execute_with(limits, host, script).result, Ok(Some(json!(1))));
    assert_eq!(seen.try_iter().count(), 50);
    assert!(running.lock().unwrap().1 <= 3);
}

#[test]
fn a_tool_that_is_slower_than_the_script_may_be_is_told_and_not_waited_for() {
    let (told, aborted) = mpsc::channel();
    let told = Mutex::new(told);
    let host = Host::new().with("slow", move |_, signal| {
        signal.wait();
        told.lock().unwrap().send(()).unwrap();
        Ok(Value::Null)
    });
    let execution = execute_with(within(200), host, "console.log(1); await tools.slow()");
    assert_eq!(
        super::told(&execution),
        "console \"1\"\nTimeout the script took longer than 200 ms"
    );
    assert_eq!(execution.calls[0].status, CallStatus::Cancelled);
    assert_eq!(aborted.recv_timeout(BOUND), Ok(()));
}

#[test]
fn calls_that_nobody_awaits_are_cancelled_at_every_ending() {
    for (ending, expected) in [
        ("return 1", "1"),
        ("throw 1", "Script 1"),
        ("exit()", "nothing"),
        ("while (true) {}", "Timeout the script took longer than 1000 ms"),
    ] {
        let (told, aborted) = mpsc::channel();
        let told = Mutex::new(told);
        let (started, begun) = mpsc::channel();
        let (started, begun) = (Mutex::new(started), Mutex::new(begun));
        let host = Host::new()
            .with("slow", move |_, signal| {
                started.lock().unwrap().send(()).unwrap();
                signal.wait();
                told.lock().unwrap().send(()).unwrap();
                Ok(Value::Null)
            })
            .with("begun", move |_, _| {
                begun.lock().unwrap().recv().unwrap();
                Ok(Value::Null)
            });
        let script = format!("tools.slow(); await tools.begun(); {ending}");
        let execution = execute_with(within(1000), host, &script);
        assert_eq!(super::told(&execution), expected);
        assert_eq!(execution.calls[0].status, CallStatus::Cancelled, "{ending}");
        assert_eq!(aborted.recv_timeout(BOUND), Ok(()), "{ending}");
    }
}

#[test]
fn an_abort_stops_a_script_that_computes() {
    let (host, ended) = watched();
    let controller = AbortController::new();
    let abort = controller.clone();
    let host = host.with("abort", move |_, _| {
        abort.abort();
        Ok(Value::Null)
    });
    let host: Arc<dyn ScriptHost> = Arc::new(host);
    let script = "tools.abort(); while (true) {}";
    let execution = Sandbox::default().execute(script, host, &controller.signal());
    assert_eq!(execution.result.unwrap_err().kind, ScriptErrorKind::Aborted);
    assert_eq!(ended.recv_timeout(BOUND), Ok(()));
}

#[test]
fn a_script_whose_signal_has_fired_does_not_run_on() {
    let controller = AbortController::new();
    controller.abort();
    let host: Arc<dyn ScriptHost> = Arc::new(Host::new());
    let execution = Sandbox::default().execute("while (true) {}", host, &controller.signal());
    assert_eq!(execution.result.unwrap_err().kind, ScriptErrorKind::Aborted);
}

#[test]
fn output_is_limited_even_for_scripts_that_catch_the_error() {
    let limits = Limits { output_characters: 10, ..Limits::default() };
    let script = "try { text('123'); text('45678901') } catch {} return 1";
    assert_eq!(
        told(&execute_with(limits, Host::new(), script)),
        "text \"123\"\nScript RangeError: the output is too long: at most 10 characters in 100000 pieces"
    );
    let limits = Limits { output_items: 2, ..Limits::default() };
    let script = "text(1); console.log(2); text(3)";
    assert!(told(&execute_with(limits, Host::new(), script)).contains("in 2 pieces"));
    let limits = Limits { output_characters: 1000, ..Limits::default() };
    assert!(
        told(&execute_with(limits, Host::new(), "while (true) text('')")).contains("the output is")
    );
}

#[test]
fn calls_arguments_and_results_are_limited() {
    let limits = || Limits { calls: 2, argument_bytes: 40, result_bytes: 40, ..Limits::default() };
    let host = || {
        Host::new()
            .with("large", |_, _| Ok(json!("x".repeat(41))))
            .with("large_list", |_, _| Ok(json!(vec![1; 41])))
    };
    let caught = |script: &str| {
        let script = format!("try {{ {script} }} catch (e) {{ return String(e) }}");
        execute_with(limits(), host(), &script).result.unwrap().unwrap()
    };
    assert_eq!(
        caught("await tools.echo(); await tools.echo(); await tools.echo()"),
        "RangeError: too many tool calls: a script may make 2"
    );
    assert_eq!(
        caught("await tools.echo({text: 'x'.repeat(40)})"),
        "RangeError: the argument of echo is too large: 51 bytes, at most 40"
    );
    assert_eq!(
        caught("await tools.large()"),
        "Error: the result of large is too large for a script: 41 bytes, at most 40"
    );
    assert_eq!(
        caught("await tools.large_list()"),
        "Error: the result of large_list is too large for a script: 83 bytes, at most 40"
    );
}

#[test]
fn what_waiting_calls_hold_outside_the_engine_is_limited() {
    let limits = Limits { memory: 4 << 20, ..Limits::default() };
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    // The first call waits, and the others hold their arguments behind it.
    let held = Host::new().with("held", move |_, _| {
        let _ = gate.lock().unwrap().recv();
        Ok(Value::Null)
    });
    let script = "for (let n = 0; n < 99; n++) tools.held({text: 'x'.repeat(1e5)}).catch(() => {})\n\
                  try { await tools.held({text: 'x'.repeat(1e5)}) } catch (e) { return String(e) }";
    let execution = execute_with(limits, held, script);
    drop(release);
    let told = execution.result.unwrap().unwrap();
    let expected = "RangeError: the calls that are open have arguments and results of more than 4194304 bytes together: \
                    await some of them";
    assert_eq!(told, expected);
}

#[test]
fn scripts_are_refused_while_too_many_threads_are_stuck() {
    let sandbox = Sandbox::new(Limits { stuck_threads: 1, ..within(200) });
    // The engine compiles such a class of characters for seconds without a look at anything; how many, the machine says.
    let stuck = ["3e4", "1e5", "5e5", "2e6"].into_iter().find_map(|size| {
        let script =
            format!("new RegExp('[' + '\\u{{1}}-\\u{{10FFFF}}'.repeat({size}) + ']', 'vi')");
        let (host, ended) = watched();
        sandbox.execute(&script, Arc::new(host), &AbortSignal::never());
        loop {
            match ended.recv_timeout(Duration::from_millis(5)) {
                Err(mpsc::RecvTimeoutError::Timeout) if sandbox.stuck_threads() == 0 => (),
                Err(mpsc::RecvTimeoutError::Timeout) => return Some(ended),
                _ => return None,
            }
        }
    });
    let ended = stuck.expect("a script that is stuck for more than a second");
    let run = || sandbox.execute("return 1", Arc::new(Host::new()), &AbortSignal::never());
    assert_eq!(
        told(&run()),
        "Sandbox 1 earlier scripts still run in functions that cannot be interrupted: no new script is started"
    );
    assert_eq!(ended.recv_timeout(10 * BOUND), Ok(()));
    assert_eq!(sandbox.stuck_threads(), 0);
}

#[test]
fn stored_values_are_limited() {
    refuses(
        "store('a', 'x'.repeat(262143))",
        "RangeError: a stored value may have 262144 characters",
    );
    refuses(
        "for (let n = 0; n < 5; n++) store('k' + n, 'x'.repeat(262000))",
        "RangeError: all stored keys and values",
    );
    check_value(
        "for (let n = 0; n < 9; n++) store('k', 'x'.repeat(262000)); return load('k').length",
        json!(262_000),
    );
}

#[test]
fn the_options_line_shortens_the_time() {
    let script = "// @options: {\"timeout_ms\": 50}\nwhile (true) {}";
    check(script, "Timeout the script took longer than 50 ms");
}

#[test]
fn a_panicking_tool_fails_its_call_only() {
    let host = Host::new().with("panic", |_, _| panic!("of the tool"));
    let script =
        "try { await tools.panic() } catch (e) { return [e.message, await tools.echo({a: 1})] }";
    let expected = json!(["the tool panicked: of the tool", {"a": 1}]);
    assert_eq!(execute_with(Limits::default(), host, script).result, Ok(Some(expected)));
}

#[test]
fn a_hundred_scripts_run_at_once() {
    let sandbox = Sandbox::default();
    let barrier = Arc::new(Barrier::new(100));
    let threads: Vec<_> = (0..100)
        .map(|number| {
            let (sandbox, barrier) = (sandbox.clone(), barrier.clone());
            thread::Builder::new().spawn(move || {
                // Every script waits for all others in a call.
                let host = Host::new().with("meet", move |_, _| {
                    barrier.wait();
                    Ok(json!(number))
                });
                sandbox.execute("return tools.meet()", Arc::new(host), &AbortSignal::never())
            })
        })
        .collect::<Result<_, _>>()
        .unwrap();
    for (number, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap().result, Ok(Some(json!(number))));
    }
}
