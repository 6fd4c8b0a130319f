//! The coding example as its user runs it: tasks in by a pipe, with the built-in model.

use std::{fs, path::Path};

use expect_test::{Expect, expect};

use crate::chat::{Folder, Talk, run};

/// Does the tasks in a folder and compares what is shown.
#[track_caller]
fn check(folder: &Folder, arguments: &[&str], tasks: &str, expected: Expect) {
    expected.assert_eq(&shown(folder, arguments, tasks));
}

#[track_caller]
fn shown(folder: &Folder, arguments: &[&str], tasks: &str) -> String {
    let root = folder.file("");
    let (shown, code) = run("coding_agent", &[&["--root", &root], arguments].concat(), tasks);
    assert_eq!(code, Some(0), "{shown}");
    shown
}

fn notes() -> Folder {
    let folder = Folder::new();
    fs::write(folder.file("notes.txt"), "A cat sat on the mat.\n").unwrap();
    folder
}

fn text(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.file(name)).unwrap()
}

#[test]
fn a_file_is_edited_when_the_user_says_yes() {
    let folder = notes();
    let task =
        "Use `edit_file` with {\"path\": \"notes.txt\", \"old\": \"cat\", \"new\": \"dog\"}\ny\n";
    check(
        &folder,
        &[],
        task,
        expect![[r#"
            I use `read_file` and `edit_file`, at the same time.
            * read_file {"path":"notes.txt"}
            * edit_file {"path":"notes.txt","old":"cat","new":"dog"}
            ? edit_file {"path":"notes.txt","old":"cat","new":"dog"} [y]es, [a]lways, or why not: 
              read_file = A cat sat on the mat.
              edit_file = edited notes.txt
            That gave:
            - `read_file` (notes.txt): A cat sat on the mat.
            - `edit_file` (notes.txt, cat, dog): edited notes.txt
        "#]],
    );
    assert_eq!(text(&folder, "notes.txt"), "A dog sat on the mat.\n");
}

#[test]
fn nothing_is_written_when_the_user_says_no() {
    let folder = notes();
    let task = "Use `write_file` with {\"path\": \"notes.txt\", \"content\": \"gone\"}\nkeep it\n";
    check(
        &folder,
        &[],
        task,
        expect![[r#"
            I use `write_file`.
            * write_file {"path":"notes.txt","content":"gone"}
            ? write_file {"path":"notes.txt","content":"gone"} [y]es, [a]lways, or why not: 
              write_file failed: the user said no: keep it
            `write_file` failed: the user said no: keep it
        "#]],
    );
    assert_eq!(text(&folder, "notes.txt"), "A cat sat on the mat.\n");
}

/// The line behind the question is the next task, not its answer.
#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_question_and_the_next_task_is_done() {
    let folder = notes();
    let mut talk = Talk::start("coding_agent", &["--root", &folder.file("")]);
    talk.type_in("Use `write_file` with {\"path\": \"notes.txt\", \"content\": \"gone\"}\n");
    talk.wait_for("or why not:");
    talk.interrupt();
    talk.wait_for("(aborted)");
    talk.type_in("List the files.\n");
    talk.wait_for("`list_files` says");
    let (shown, code) = talk.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(text(&folder, "notes.txt"), "A cat sat on the mat.\n");
}

#[test]
fn what_is_always_allowed_is_asked_for_once() {
    let folder = notes();
    let tasks = "Use `write_file` with {\"path\": \"a/b.txt\", \"content\": \"one\"}\na\n\
                 Use `write_file` with {\"path\": \"a/c.txt\", \"content\": \"two\"}\n";
    let shown = shown(&folder, &[], tasks);
    assert_eq!(shown.matches("? write_file").count(), 1, "{shown}");
    assert_eq!((text(&folder, "a/b.txt"), text(&folder, "a/c.txt")), ("one".into(), "two".into()));
}

#[test]
fn files_are_listed_read_and_searched_without_a_question() {
    let folder = notes();
    let tasks = "List the files.\nRead notes.txt.\nUse `search_files` with {\"text\": \"mat\"}\n";
    check(
        &folder,
        &[],
        tasks,
        expect![[r#"
            I use `list_files`.
            * list_files {"folder":"."}
              list_files = notes.txt
            `list_files` says: notes.txt
            I use `read_file`.
            * read_file {"path":"notes.txt"}
              read_file = A cat sat on the mat.
            `read_file` says: A cat sat on the mat.
            I use `search_files`.
            * search_files {"text":"mat"}
              search_files = notes.txt:1: A cat sat on the mat.
            `search_files` says: notes.txt:1: A cat sat on the mat.
        "#]],
    );
}

#[test]
fn no_path_leads_out_of_the_folder() {
    let (outside, folder) = (notes(), notes());
    let secret = outside.file("notes.txt");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&secret, folder.file("link.txt")).unwrap();
        std::os::unix::fs::symlink(outside.file(""), folder.file("out")).unwrap();
        std::os::unix::fs::symlink(outside.file("new.txt"), folder.file("dangling.txt")).unwrap();
    }
    let paths = ["../x.txt", "a/../../x.txt", &secret, "link.txt", "out/notes.txt", "dangling.txt"];
    for path in paths {
        for (tool, rest) in [
            ("read_file", ""),
            ("write_file", ", \"content\": \"gone\""),
            ("edit_file", ", \"old\": \"cat\", \"new\": \"dog\""),
        ] {
            let task = format!("Use `{tool}` with {{\"path\": {path:?}{rest}}}\n");
            let shown = shown(&folder, &["--yes"], &task);
            assert!(shown.contains(&format!("{tool} failed:")), "{shown}");
        }
    }
    let shown = shown(&folder, &["--yes"], "List the files in out.\n");
    assert!(shown.contains("list_files failed:"), "{shown}");
    assert_eq!(text(&outside, "notes.txt"), "A cat sat on the mat.\n");
    assert!(!Path::new(&outside.file("new.txt")).exists());
}

#[cfg(unix)]
#[test]
fn a_command_tells_its_output_and_how_it_ended() {
    let tasks = "Use `run_command` with {\"command\": \"cat notes.txt; echo no >&2; exit 3\"}\n";
    let shown = shown(&notes(), &["--yes"], tasks);
    assert!(shown.contains("A cat sat on the mat."), "{shown}");
    assert!(shown.contains("[failed with code 3]"), "{shown}");
}

/// What the command has started ends with it.
#[cfg(target_os = "linux")]
#[test]
fn a_command_that_takes_too_long_is_ended_with_all_it_started() {
    let folder = notes();
    let command = "sleep 1000 & echo $! > pid.txt; sleep 1000";
    let task = format!("Use `run_command` with {{\"command\": {command:?}, \"seconds\": 1}}\n");
    let shown = shown(&folder, &["--yes"], &task);
    assert!(shown.contains("[stopped after 1 s]"), "{shown}");
    let state = fs::read_to_string(format!("/proc/{}/stat", text(&folder, "pid.txt").trim()));
    // Gone, or dead and not yet collected by whoever collects orphans here.
    assert!(state.is_err() || state.is_ok_and(|state| state.contains(") Z ")));
}

#[test]
fn a_page_is_fetched() {
    use steerage::testing::server::{Response, Server};
    let server = Server::start([Response::new(200).text("Welcome.")]).unwrap();
    let task = format!("Use `fetch_url` with {{\"url\": \"{}/page\"}}\n", server.url());
    let shown = shown(&notes(), &["--yes"], &task);
    assert!(shown.contains("Welcome."), "{shown}");
    let task = "Use `fetch_url` with {\"url\": \"file:///etc/hosts\"}\n";
    let shown = self::shown(&notes(), &["--yes"], task);
    assert!(shown.contains("is no address of the web"), "{shown}");
}
