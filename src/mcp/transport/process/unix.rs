//! A process group.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus},
};

use parking_lot::Mutex;
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
    },
};

/// A child that leads a process group of its own.
///
/// The child is not reaped before the group was told to end, so that its number cannot belong to another one meanwhile.
pub(crate) struct Group {
    id: Pid,
    child: Mutex<Child>,
}

/// The pipes of a child.
pub(crate) type Pipes = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

impl Group {
    pub(crate) fn start(mut command: Command) -> io::Result<(Group, Pipes)> {
        let mut child = command.process_group(0).spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let id = Pid::from_child(&child);
        Ok((Group { id, child: Mutex::new(child) }, pipes))
    }

    /// Blocks until the child itself has ended.
    pub(crate) fn wait(&self) {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(self.id), how).is_err_and(|error| error == Errno::INTR) {}
    }

    /// Asks every process of the group to end.
    pub(crate) fn terminate(&self) {
        let _ = kill_process_group(self.id, Signal::TERM);
    }

    /// Ends every process of the group.
    pub(crate) fn kill(&self) {
        let _ = kill_process_group(self.id, Signal::KILL);
    }

    /// Takes leave of the child, which must have ended.
    pub(crate) fn reap(&self) -> Option<ExitStatus> {
        self.child.lock().wait().ok()
    }

    /// Tells whether others of the group are left, once the child is reaped.
    pub(crate) fn is_left(&self) -> bool {
        test_kill_process_group(self.id).is_ok()
    }
}
