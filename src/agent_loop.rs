//! The loop.
mod declare;
