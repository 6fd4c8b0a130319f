//! Where a request lets the server cache its prompt.

use std::env;

use serde::Serialize;

use crate::{
    provider::anthropic::{
        compat::Compat,
        messages::{WireBlock, WireContent, WireMessage},
    },
    stream::{CacheRetention, StreamOptions},
};

/// Sets how long caches are kept where a request does not say; `long` is the one value that changes something.
const RETENTION_VARIABLE: &str = "STEERAGE_CACHE_RETENTION";

/// The mark that ends a cached prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct CacheMark {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

/// The retention that a request asks for.
pub(super) fn retention(options: &StreamOptions) -> CacheRetention {
    let by_variable = || match variable(options, RETENTION_VARIABLE).as_deref() {
        Some("long") => CacheRetention::Long,
        _ => CacheRetention::Short,
    };
    options.cache_retention.unwrap_or_else(by_variable)
}

fn variable(options: &StreamOptions, name: &str) -> Option<String> {
    let given = options.env.iter().rev().find(|(it, _)| it == name);
    given.map(|(_, value)| value.clone()).or_else(|| env::var(name).ok())
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
