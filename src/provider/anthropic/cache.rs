//! Where a request lets the server cache its prompt.

use serde::Serialize;

use crate::{
    provider::anthropic::{
        compat::Compat,
        messages::{WireBlock, WireContent, WireMessage},
    },
    stream::CacheRetention,
};

/// The mark that ends a cached prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct CacheMark {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

/// The mark for a retention; none if nothing shall be cached.
pub(super) fn mark(retention: CacheRetention, compat: &Compat) -> Option<CacheMark> {
    let ttl = match retention {
        CacheRetention::None => return None,
        CacheRetention::Short => None,
        CacheRetention::Long => compat.long_cache.then_some("1h"),
    };
    Some(CacheMark { kind: "ephemeral", ttl })
}

/// Marks the last block of the last message, unless the assistant said it.
pub(super) fn mark_last(messages: &mut [WireMessage<'_>], mark: CacheMark) {
    let Some(last) = messages.last_mut().filter(|last| last.role != "assistant") else { return };
    if let WireContent::Text(text) = &mut last.content {
        let text = std::mem::take(text);
        last.content = WireContent::Blocks(vec![WireBlock::text(text)]);
    }
    if let WireContent::Blocks(blocks) = &mut last.content
        && let Some(block) = blocks.last_mut()
    {
        block.set_mark(mark);
    }
}
