//! What servers send as content, as what a model understands; and how much of it.

use serde_json::Value;

use crate::{
    mcp::definition::CallResult,
    message::{Content, ImageContent},
};

/// How many bytes of text of one result go to a model, unless options say otherwise: 20 KiB.
pub const MAX_OUTPUT_BYTES: usize = 20 << 10;

/// Makes of a result what a model understands. Texts and images pass; what a model cannot take is named in its place.
///
/// A result that has data only becomes its JSON.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use steerage::{mcp::{content::to_content, definition::CallResult}, message::Content};
///
/// let link = json!({"type": "resource_link", "name": "notes", "uri": "file:///notes.md"});
/// let result = CallResult { content: vec![link], ..CallResult::default() };
/// assert_eq!(to_content(&result), [Content::text("notes: file:///notes.md")]);
/// ```
pub fn to_content(result: &CallResult) -> Vec<Content> {
    match &result.structured_content {
        Some(data) if result.content.is_empty() => {
            vec![Content::text(serde_json::to_string_pretty(data).unwrap_or_default())]
        }
        _ => result.content.iter().map(block).collect(),
    }
}

/// Makes of one block what a model understands.
pub fn block(block: &Value) -> Content {
    let text = |place: &str| block.pointer(place).and_then(Value::as_str);
    let kind = text("/type").unwrap_or("without a type");
    match kind {
        "text" => Content::text(text("/text").unwrap_or_default()),
        "image" if text("/data").is_some() => image(block),
        "audio" => {
            let form = text("/mimeType").unwrap_or("of unknown form");
            Content::text(format!("[audio {form}, which cannot be shown here]"))
        }
        "resource_link" => {
            let uri = text("/uri").unwrap_or_default();
            let name = text("/title").or(text("/name")).unwrap_or("resource");
            let description =
                text("/description").map_or_else(String::new, |it| format!(" ({it})"));
            Content::text(format!("{name}: {uri}{description}"))
        }
        "resource" => block.get("resource").map_or_else(|| foreign(kind), resource),
        _ => foreign(kind),
    }
}

/// Makes of what is in a resource what a model understands.
fn resource(resource: &Value) -> Content {
    let text = |name: &str| resource.get(name).and_then(Value::as_str);
    if let Some(text) = text("text") {
        return Content::text(text);
    }
    let form = text("mimeType");
    if let (Some(data), Some(form)) = (text("blob"), form)
        && form.starts_with("image/")
    {
        let (data, mime_type) = (data.to_owned(), form.to_owned());
        return Content::Image(ImageContent { data, mime_type });
    }
    let (uri, form) = (text("uri").unwrap_or("without a URI"), form.unwrap_or("unknown form"));
    Content::text(format!("[resource {uri} of {form}, which cannot be shown here]"))
}

fn image(block: &Value) -> Content {
    let text =
        |name: &str, or: &str| block.get(name).and_then(Value::as_str).unwrap_or(or).to_owned();
    let (data, mime_type) = (text("data", ""), text("mimeType", "image/png"));
    Content::Image(ImageContent { data, mime_type })
}

fn foreign(kind: &str) -> Content {
    Content::text(format!("[content of the kind `{kind}`, which cannot be shown here]"))
}

/// Content that was cut to a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Limited {
    /// What goes to the model.
    pub content: Vec<Content>,
    /// The whole text, if it did not fit.
    pub whole: Option<String>,
}

/// Cuts the text of a result to about `most` bytes: beginning and end stay, and it is said how much is missing. Images
/// stay.
pub fn limit(content: Vec<Content>, most: usize) -> Limited {
    let texts: Vec<&str> = content.iter().filter_map(Content::as_text).collect();
    let length: usize = texts.iter().map(|text| text.len() + 1).sum::<usize>().saturating_sub(1);
    if length <= most {
        return Limited { content, whole: None };
    }
    let whole = texts.join("\n");
    let head = &whole[..whole.floor_char_boundary(most / 2)];
    let tail = &whole[whole.ceil_char_boundary(whole.len() - most / 2)..];
    let missing = whole.len() - head.len() - tail.len();
    let lines = whole.lines().count();
    let text = format!(
        "[The output is {length} bytes in {lines} lines; {missing} bytes in its middle are left out. Ask for less at a \
         time to see them.]\n\n{head}\n[… {missing} bytes left out …]\n{tail}"
    );
    let images = content.into_iter().filter(|it| it.as_text().is_none());
    let content = std::iter::once(Content::text(text)).chain(images).collect();
    Limited { content, whole: Some(whole) }
}
