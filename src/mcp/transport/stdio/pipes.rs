//! The three pipes of a server process, each with a thread that blocks on it.

use std::{
    io::{self, Read, Write},
    process::{ChildStderr, ChildStdin, ChildStdout},
    sync::Arc,
};

use crossbeam_channel::Receiver;

use super::Shared;
use crate::{
    jsonrpc::{Line, LineCutter, Message, excerpt},
    mcp::transport::{Inbox, process::Pipes},
    secret::scrub,
    thread,
};

const BUFFER: usize = 64 << 10;

/// Starts the threads. Each ends when its pipe does.
pub(super) fn start(
    shared: &Arc<Shared>,
    inbox: &Inbox,
    (input, output, errors): Pipes,
    queue: Receiver<String>,
) -> io::Result<()> {
    let name = |what: &str| format!("mcp-{what}-{}", shared.number);
    if let Some(input) = input {
        let (shared, inbox) = (shared.clone(), inbox.clone());
        thread::spawn(&name("in"), move || write(input, &queue, &shared, &inbox))?;
    }
    if let Some(output) = output {
        let (shared, inbox) = (shared.clone(), inbox.clone());
        thread::spawn(&name("out"), move || read(output, &shared, &inbox))?;
    }
    if let Some(errors) = errors {
        let shared = shared.clone();
        thread::spawn(&name("err"), move || keep(errors, &shared))?;
    }
    Ok(())
}

/// Writes line by line until nobody can send any more, then closes the pipe.
fn write(mut input: ChildStdin, queue: &Receiver<String>, shared: &Shared, inbox: &Inbox) {
    for mut line in queue {
        line.push('\n');
        if input.write_all(line.as_bytes()).and_then(|()| input.flush()).is_err() {
            drop(input);
            give_up(shared, inbox);
            return;
        }
    }
}

fn read(mut output: ChildStdout, shared: &Shared, inbox: &Inbox) {
    let most = shared.options.max_message_bytes;
    let mut cutter = LineCutter::new(most);
    let mut buffer = vec![0; BUFFER];
    while let Some(amount) = next(&mut output, &mut buffer) {
        cutter.push(&buffer[..amount], |line| match line {
            Line::Whole(line) => deliver(line, shared, inbox),
            Line::TooLong => inbox.fault(format!(
                "a message of the MCP server {} is longer than {most} bytes and was dropped",
                shared.options.program()
            )),
        });
    }
    if cutter.unfinished() > 0 {
        inbox.fault(format!(
            "the output of the MCP server {} ends in the middle of a message",
            shared.options.program()
        ));
    }
    shared.output_done.abort();
    give_up(shared, inbox);
}

fn deliver(line: &[u8], shared: &Shared, inbox: &Inbox) {
    for message in Message::from_bytes(line) {
        match message {
            Ok(message) => inbox.message(message),
            Err(problem) => {
                let program = shared.options.program();
                let shown = scrub(&excerpt(line), &shared.options.secrets());
                inbox
                    .fault(format!("the MCP server {program} sent no message: {problem}: {shown}"));
            }
        }
    }
}

/// Ends a process that can be talked to in one direction only, or in none. If it is ending anyway, its end is the
/// better reason.
fn give_up(shared: &Shared, inbox: &Inbox) {
    if shared.ended.signal().wait_timeout(super::DRAIN * 3) {
        return;
    }
    inbox.closed(shared.reason());
    shared.close();
}

fn keep(mut errors: ChildStderr, shared: &Shared) {
    let most = shared.options.max_stderr_bytes;
    let mut buffer = vec![0; BUFFER];
    while let Some(amount) = next(&mut errors, &mut buffer) {
        let bytes = &buffer[..amount];
        {
            let mut kept = shared.stderr.lock();
            kept.extend_from_slice(bytes);
            // Cut seldom, so that a flood is not moved byte by byte.
            if kept.len() > 2 * most {
                let surplus = kept.len() - most;
                kept.drain(..surplus);
            }
        }
        if let Some(sink) = &shared.options.on_stderr {
            let _ = thread::catch(|| sink(bytes));
        }
    }
    {
        let mut kept = shared.stderr.lock();
        let surplus = kept.len().saturating_sub(most);
        kept.drain(..surplus);
    }
    shared.stderr_done.abort();
}

/// Reads the next bytes; none at the end, however it came.
fn next(pipe: &mut impl Read, buffer: &mut [u8]) -> Option<usize> {
    loop {
        match pipe.read(buffer) {
            Ok(0) => return None,
            Ok(amount) => return Some(amount),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(_) => return None,
        }
    }
}
