//! Images from bytes and files.

use std::{fs, process};

use expect_test::{Expect, expect};
use serde_json::json;
use steerage::{ErrorKind, Modality, Model, message::ImageContent};

#[cfg(feature = "images")]
mod scaled;

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend(b"\x08\x02\0\0\0");
    bytes
}

/// A JPEG's header, with a comment before it that tells the size.
fn jpeg(width: u16, height: u16, comment: u16) -> Vec<u8> {
    let mut bytes = b"\xff\xd8\xff\xfe".to_vec();
    bytes.extend(comment.to_be_bytes());
    bytes.resize(bytes.len() + usize::from(comment) - 2, b'c');
    // A table, fill bytes, and the frame.
    bytes.extend(b"\xff\xc4\0\x03t\xff\xff\xff\xc2\0\x11\x08");
    bytes.extend(height.to_be_bytes());
    bytes.extend(width.to_be_bytes());
    bytes
}

fn webp(kind: [u8; 4], rest: &[u8]) -> Vec<u8> {
    [b"RIFF\0\0\0\0WEBP", &kind[..], b"\0\0\0\0", rest].concat()
}

fn model(limits: serde_json::Value) -> Model {
    Model {
        id: "m".to_owned(),
        input: vec![Modality::Text, Modality::Image],
        input_limits: Some(json!({"images": {"resize": limits}})),
        ..Model::default()
    }
}

#[track_caller]
fn check(bytes: &[u8], media_type: &str, size: (u32, u32)) {
    let image = ImageContent::from_bytes(bytes).unwrap();
    assert_eq!((image.mime_type.as_str(), image.size()), (media_type, Some(size)));
    for end in 0..bytes.len() {
        // Bytes that are cut off may be refused or have no size, and that is all.
        let cut = ImageContent::from_bytes(&bytes[..end]);
        assert!(cut.is_err() || cut.is_ok_and(|it| it.size().is_none_or(|it| it == size)));
    }
}

#[test]
fn media_type_and_size_follow_from_the_bytes() {
    check(&png(640, 480), "image/png", (640, 480));
    check(b"GIF87a\x02\x01\x03\0", "image/gif", (258, 3));
    check(&jpeg(1920, 1080, 9), "image/jpeg", (1920, 1080));
    check(&webp(*b"VP8 ", b"\0\0\0\x9d\x01\x2a\x40\x01\xf0\x40"), "image/webp", (320, 240));
    check(&webp(*b"VP8L", b"\x2f\x3f\xc1\x77\0"), "image/webp", (320, 480));
    check(&webp(*b"VP8X", b"\0\0\0\0\x3f\x01\0\xef\0\0"), "image/webp", (320, 240));
}

#[test]
fn the_size_of_a_jpeg_may_come_late() {
    let image = ImageContent::from_bytes(jpeg(100, 50, 40_000)).unwrap();
    assert_eq!(image.size(), Some((100, 50)));
}

#[test]
fn an_image_that_does_not_tell_its_size_has_none() {
    for bytes in
        [&b"\xff\xd8\xff\xd9"[..], b"\xff\xd8\xff\xe0\0\0", b"\xff\xd8\xff\xff\xff", &png(0, 9)]
    {
        assert_eq!(ImageContent::from_bytes(bytes).unwrap().size(), None, "{bytes:?}");
    }
    let strange = ImageContent { data: "no base64!".to_owned(), mime_type: "image/png".to_owned() };
    assert_eq!(strange.size(), None);
}

#[track_caller]
fn check_refused(bytes: &[u8], expected: Expect) {
    let error = ImageContent::from_bytes(bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    expected.assert_eq(&error.to_string());
}

#[test]
fn other_formats_are_refused_by_name() {
    check_refused(
        b"%PDF-1.7",
        expect![["the image is a PDF document: models take PNG, JPEG, GIF and WebP"]],
    );
    check_refused(
        b"\0\0\0\x18ftypheic",
        expect![["the image is a HEIC image: models take PNG, JPEG, GIF and WebP"]],
    );
    check_refused(
        b"<?xml version=\"1.0\"?>\n<svg/>",
        expect![["the image is an SVG drawing: models take PNG, JPEG, GIF and WebP"]],
    );
    check_refused(b"", expect![["the image is empty: models take PNG, JPEG, GIF and WebP"]]);
    check_refused(
        b"RIFF\0\0\0\0WAVE",
        expect![[
            "the image is no image that is known by its first bytes: models take PNG, JPEG, GIF and WebP"
        ]],
    );
}

#[test]
fn a_file_is_read_and_its_faults_name_it() {
    let path = std::env::temp_dir().join(format!("steerage-image-{}", process::id()));
    let bytes = [png(3, 4), vec![7; 2000]].concat();
    fs::write(&path, &bytes).unwrap();
    assert_eq!(ImageContent::from_file(&path).unwrap(), ImageContent::from_bytes(&bytes).unwrap());
    fs::write(&path, "text").unwrap();
    let refused = ImageContent::from_file(&path).unwrap_err().to_string();
    fs::remove_file(&path).unwrap();
    let missing = ImageContent::from_file(&path).unwrap_err().to_string();
    let name = path.display().to_string();
    assert!(refused.contains(&name) && missing.contains(&name), "{refused} {missing}");
}

#[test]
fn an_image_that_fits_is_left_as_it_is() {
    let image = ImageContent::from_bytes(png(2000, 1000)).unwrap();
    let length = image.data.len();
    let limits = json!({"maxWidth": 2000, "maxHeight": 1000, "maxBytes": length});
    assert_eq!(image.clone().fit(&model(limits)).unwrap(), image);
    assert_eq!(image.clone().fit(&model(json!({}))).unwrap(), image);
}

#[test]
fn a_model_without_images_gets_none() {
    let image = ImageContent::from_bytes(png(1, 1)).unwrap();
    let error = image.fit(&Model { id: "m".to_owned(), ..Model::default() }).unwrap_err();
    assert_eq!(error.to_string(), "the model `m` takes no images: use another one");
}

#[test]
fn an_image_that_cannot_be_made_to_fit_says_why() {
    // The header alone: there is nothing to decode.
    let image = ImageContent::from_bytes(png(4000, 30)).unwrap();
    let limits = json!({"maxWidth": 2000, "maxHeight": 1000, "maxBytes": 20});
    let error = image.fit(&model(limits)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    let expected = "the image is too large for the model `m`: it has 4000 x 30 pixels of at most 2000 x 1000, and it has 40 bytes in base64 of at most 20; ";
    assert!(error.to_string().starts_with(expected), "{error}");
}
