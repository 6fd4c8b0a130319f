//! The models that are known by heart: vendors, prices, limits, as data that is unpacked when it is asked for.
//!
//! The data lies in the program compressed, one member for each provider, and a provider is unpacked and parsed for itself.
//! Nothing happens at start. `tests/it/catalogue.rs` says how the data is made anew.

use std::io::Read;

use flate2::read::DeflateDecoder;

use crate::model::Model;

/// An index in lines (provider, number of models, packed bytes), an empty line, and the members one after the other: each
/// a deflate stream of one line of JSON for each model, which leaves the provider out.
const PACKED: &[u8] = include_bytes!("catalogue/models.bin");

/// A provider of the catalogue.
#[derive(Debug, Clone, Copy)]
struct Member {
    provider: &'static str,
    models: usize,
    packed: &'static [u8],
}

/// Lists the providers that the catalogue knows, with the number of their models. Nothing is unpacked for it.
///
/// # Examples
///
/// ```
/// use steerage::catalogue;
///
/// assert!(catalogue::providers().any(|(provider, models)| provider == "anthropic" && models > 10));
/// ```
pub fn providers() -> impl Iterator<Item = (&'static str, usize)> {
    members().map(|member| (member.provider, member.models))
}

/// Unpacks the models of a provider; none if it does not know the provider.
///
/// It parses each time; `Models` keeps what it has read.
pub fn models(provider: &str) -> Vec<Model> {
    let text = json_lines(provider).unwrap_or_default();
    let parse = |line| {
        let mut model: Model = serde_json::from_str(line).ok()?;
        provider.clone_into(&mut model.provider);
        Some(model)
    };
    text.lines().filter_map(parse).collect()
}

/// Unpacks the models of a provider as they are stored: one line of JSON for each, without the provider.
pub fn json_lines(provider: &str) -> Option<String> {
    let member = members().find(|member| member.provider == provider)?;
    let mut text = String::new();
    DeflateDecoder::new(member.packed).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Walks the index. What does not fit ends it, which a test would notice.
fn members() -> impl Iterator<Item = Member> {
    let end = PACKED.windows(2).position(|pair| pair == b"\n\n").unwrap_or(0);
    let (index, rest) = PACKED.split_at(end);
    let mut rest = rest.get(2..).unwrap_or_default();
    let index = str::from_utf8(index).unwrap_or_default();
    index.lines().map_while(move |line| {
        let mut words = line.split(' ');
        let provider = words.next()?;
        let models = words.next()?.parse().ok()?;
        let (packed, after) = rest.split_at_checked(words.next()?.parse().ok()?)?;
        rest = after;
        Some(Member { provider, models, packed })
    })
}
