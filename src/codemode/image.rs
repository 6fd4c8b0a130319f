//! Images that a script prints: checked to be what they say.

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::message::ImageContent;

/// Reads a base64 `data:` URL, or plain base64. The type is taken from the bytes, whatever the URL says.
pub(super) fn decode(url: &str) -> Result<ImageContent, String> {
    let lower = url.get(..8).unwrap_or(url).to_ascii_lowercase();
    if lower.starts_with("http:") || lower.starts_with("https:") {
        return Err("images of the network are not fetched: pass a data: URL in base64".to_owned());
    }
    let data = if lower.starts_with("data:") {
        let (head, data) =
            url.split_once(',').ok_or("a data: URL needs a comma before its data")?;
        if !head.to_ascii_lowercase().ends_with(";base64") {
            return Err("the data: URL of an image must be in base64".to_owned());
        }
        data
    } else {
        url
    };
    let data: String = data.chars().filter(|it| !it.is_ascii_whitespace()).collect();
    let bytes =
        STANDARD.decode(&data).map_err(|error| format!("the image is no base64: {error}"))?;
    let mime_type = mime_type(&bytes).ok_or("the image is no PNG, JPEG, GIF or WebP")?;
    Ok(ImageContent { data, mime_type: mime_type.to_owned() })
}

fn mime_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
