//! The format of an image by its first bytes.

/// So many bytes tell every format.
pub(super) const ENOUGH: u64 = 512;

/// Formats that models do not take, by what stands at which place.
const OTHERS: &[(usize, &[u8], &str)] = &[
    (0, b"%PDF", "is a PDF document"),
    (0, b"BM", "is a BMP image"),
    (0, b"II*\0", "is a TIFF image"),
    (0, b"MM\0*", "is a TIFF image"),
    (0, b"\0\0\x01\0", "is an icon"),
    (0, b"\xff\x0a", "is a JPEG XL image"),
    (0, b"\0\0\0\x0cJXL ", "is a JPEG XL image"),
    (4, b"ftypheic", "is a HEIC image"),
    (4, b"ftypheix", "is a HEIC image"),
    (4, b"ftypmif1", "is a HEIF image"),
    (4, b"ftypavif", "is an AVIF image"),
    (4, b"ftyp", "is a video"),
    (0, b"\x1a\x45\xdf\xa3", "is a video"),
];

/// The media type of an image, or what the bytes are instead.
pub(super) fn media_type(bytes: &[u8]) -> Result<&'static str, String> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Ok("image/png");
    }
    if bytes.starts_with(b"\xff\xd8\xff") {
        return Ok("image/jpeg");
    }
    if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        return Ok("image/gif");
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Ok("image/webp");
    }
    let other = OTHERS
        .iter()
        .find(|(place, mark, _)| bytes.get(*place..).is_some_and(|rest| rest.starts_with(mark)));
    Err(match other {
        Some((_, _, what)) => (*what).to_owned(),
        None if bytes.is_empty() => "is empty".to_owned(),
        None if is_svg(bytes) => "is an SVG drawing".to_owned(),
        None => "is no image that is known by its first bytes".to_owned(),
    })
}

fn is_svg(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']).starts_with('<')
        && text.contains("<svg")
}
