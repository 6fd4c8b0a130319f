//! A child process together with everything that it starts: a process group on Unix, a job object on Windows.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use self::unix::{Group, Pipes};
#[cfg(windows)]
pub(crate) use self::windows::{Group, Pipes};
