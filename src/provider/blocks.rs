//! The blocks of a response whose text and thinking come as unnumbered pieces.

use crate::{
    error::{Error, ErrorKind},
    provider::{driver::Events, halves},
    stream::StreamEvent,
};

/// More blocks than an answer has.
const MOST_BLOCKS: usize = 10_000;

/// Whether there may be a block more than `count`.
pub(crate) fn check_count(count: usize) -> Result<(), Error> {
    if count >= MOST_BLOCKS {
        let message = format!("the answer has more than {MOST_BLOCKS} blocks");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    Ok(())
}

/// Numbers blocks, and keeps the one that grows.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    count: usize,
    open: Option<OpenBlock>,
}

/// The text or thinking that grows.
#[derive(Debug)]
struct OpenBlock {
    index: usize,
    is_thinking: bool,
    /// Half of a character that the next piece completes.
    half: Option<u16>,
}

impl Blocks {
    /// The number of a new block.
    pub(crate) fn begin(&mut self) -> Result<usize, Error> {
        check_count(self.count)?;
        self.count += 1;
        Ok(self.count - 1)
    }

    /// The number of the text or thinking that grows.
    pub(crate) fn open(&self) -> Option<usize> {
        self.open.as_ref().map(|open| open.index)
    }

    /// Adds to the open block, or to a new one where the kind changes.
    pub(crate) fn push(
        &mut self,
        text: &str,
        is_thinking: bool,
        has_marks: bool,
        out: &mut Events,
    ) -> Result<(), Error> {
        if self.open.as_ref().is_some_and(|open| open.is_thinking != is_thinking) {
            self.end(out);
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let content_index = self.begin()?;
                out.push_back(if is_thinking {
                    StreamEvent::ThinkingStart { content_index, initial: None }
                } else {
                    StreamEvent::TextStart { content_index }
                });
                OpenBlock { index: content_index, is_thinking, half: None }
            }
        };
        let open = self.open.insert(open);
        let joined = (has_marks || open.half.is_some()).then(|| halves::join(&mut open.half, text));
        let delta = joined.unwrap_or_else(|| text.to_owned());
        let content_index = open.index;
        out.push_back(if is_thinking {
            StreamEvent::ThinkingDelta { content_index, delta }
        } else {
            StreamEvent::TextDelta { content_index, delta }
        });
        Ok(())
    }

    /// Ends the open block, if there is one.
    pub(crate) fn end(&mut self, out: &mut Events) {
        let Some(OpenBlock { index: content_index, is_thinking, .. }) = self.open.take() else {
            return;
        };
        out.push_back(if is_thinking {
            StreamEvent::ThinkingEnd { content_index, content: None, content_signature: None }
        } else {
            StreamEvent::TextEnd { content_index, content: None, content_signature: None }
        });
    }
}
