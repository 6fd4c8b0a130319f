//! A job object.

use std::{
    io,
    process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus},
    time::Duration,
};

use parking_lot::Mutex;
use process_wrap::std::{ChildWrapper, CommandWrap, JobObject};

use crate::abort::AbortSignal;

/// How often the child is asked whether it has ended: the system's own wait would keep others from ending it.
const LOOK: Duration = Duration::from_millis(25);

/// A child in a job object of its own.
pub(crate) struct Group {
    child: Mutex<Box<dyn ChildWrapper>>,
}

/// The pipes of a child.
pub(crate) type Pipes = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

impl Group {
    pub(crate) fn start(command: Command) -> io::Result<(Group, Pipes)> {
        let mut child = CommandWrap::from(command).wrap(JobObject).spawn()?;
        let pipes = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        Ok((Group { child: Mutex::new(child) }, pipes))
    }

    /// Blocks until the child itself has ended.
    pub(crate) fn wait(&self) {
        while matches!(self.child.lock().try_wait(), Ok(None)) {
            AbortSignal::never().wait_timeout(LOOK);
        }
    }

    /// There is no polite way here but the closed pipe, which comes before this.
    pub(crate) fn terminate(&self) {
        self.kill();
    }

    /// Ends every process of the job.
    pub(crate) fn kill(&self) {
        let _ = self.child.lock().start_kill();
    }

    /// Takes leave of the child, which must have ended.
    pub(crate) fn reap(&self) -> Option<ExitStatus> {
        self.child.lock().try_wait().ok().flatten()
    }

    /// Whoever is left was ended with the job.
    pub(crate) fn is_left(&self) -> bool {
        false
    }
}
