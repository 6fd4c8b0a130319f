//! What Google's two wire APIs have in common: bodies and events.

pub(super) mod contents;
pub(super) mod family;
pub(super) mod request;
pub(super) mod response;
pub(super) mod thinking;
pub(super) mod tools;
