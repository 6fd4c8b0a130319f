//! Scaling, where there is no decoder.

use crate::{
    error::{Error, ErrorKind, Result},
    message::ImageContent,
    model::Model,
};

/// Refuses.
pub(super) fn down(_: &ImageContent, _: &Model, excess: &str) -> Result<ImageContent> {
    let message = format!("{excess}; scale it down before, or turn the feature `images` on");
    Err(Error::new(ErrorKind::Limit, message))
}
