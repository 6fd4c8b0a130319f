//! Images that are made to fit.

use std::io::Cursor;

use image::{DynamicImage, ImageFormat, Rgba, RgbaImage};
use serde_json::{Value, json};
use steerage::message::ImageContent;

use super::model;

fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    picture.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    bytes
}

/// A picture that no format makes short, the same each time.
fn noise(width: u32, height: u32) -> DynamicImage {
    let mut state = 1_u32;
    let pixel = |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [red, green, blue, _] = state.to_be_bytes();
        Rgba([red, green, blue, 255])
    };
    DynamicImage::ImageRgba8(RgbaImage::from_fn(width, height, pixel))
}

#[track_caller]
fn check(bytes: &[u8], limits: Value, media_type: &str, size: (u32, u32)) -> DynamicImage {
    let fitted = ImageContent::from_bytes(bytes).unwrap().fit(&model(limits.clone())).unwrap();
    assert_eq!((fitted.mime_type.as_str(), fitted.size()), (media_type, Some(size)));
    assert_eq!(fitted.clone().fit(&model(limits)).unwrap(), fitted);
    let bytes = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, &fitted.data).unwrap();
    image::load_from_memory(&bytes).unwrap()
}

#[test]
fn a_large_image_keeps_its_proportions_and_its_format() {
    let limits = json!({"maxWidth": 100, "maxHeight": 100});
    let rgb = DynamicImage::ImageRgb8(noise(400, 200).to_rgb8());
    check(&encoded(&rgb, ImageFormat::Png), limits.clone(), "image/png", (100, 50));
    check(&encoded(&rgb, ImageFormat::Jpeg), limits.clone(), "image/jpeg", (100, 50));
    check(&encoded(&rgb, ImageFormat::Gif), limits.clone(), "image/png", (100, 50));
    check(&encoded(&rgb, ImageFormat::WebP), limits.clone(), "image/png", (100, 50));
    check(&encoded(&rgb, ImageFormat::Png), json!({"maxHeight": 20}), "image/png", (40, 20));
}

#[test]
fn one_that_is_too_long_becomes_a_jpeg_and_then_smaller() {
    let bytes = encoded(&noise(200, 100), ImageFormat::Png);
    check(&bytes, json!({"maxBytes": 40_000}), "image/jpeg", (200, 100));
    check(&bytes, json!({"maxBytes": 20_000}), "image/jpeg", (150, 75));
}

#[test]
fn transparency_is_white_in_a_jpeg() {
    let mut picture = noise(120, 120).to_rgba8();
    for pixel in picture.pixels_mut() {
        pixel.0[3] = 0;
    }
    let bytes = encoded(&DynamicImage::ImageRgba8(picture), ImageFormat::Png);
    let fitted = check(&bytes, json!({"maxBytes": 10_000}), "image/jpeg", (120, 120));
    assert!(fitted.to_rgb8().pixels().all(|it| it.0.iter().all(|colour| *colour > 250)));
}

#[test]
fn a_photo_is_turned_upright() {
    let mut picture = RgbaImage::from_pixel(80, 40, Rgba([0, 0, 0, 255]));
    for x in 0..40 {
        for y in 0..40 {
            picture.put_pixel(x, y, Rgba([255, 255, 255, 255]));
        }
    }
    let rgb = DynamicImage::ImageRgb8(DynamicImage::ImageRgba8(picture).to_rgb8());
    let plain = encoded(&rgb, ImageFormat::Jpeg);
    // Turned by 90 degrees to the right for display.
    let exif: &[u8] =
        b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let bytes = [&plain[..2], exif, &plain[2..]].concat();
    let upright = check(&bytes, json!({"maxHeight": 30}), "image/jpeg", (15, 30)).to_rgb8();
    // What was on the left is on top.
    assert!(upright.get_pixel(7, 5).0[0] > 200 && upright.get_pixel(7, 25).0[0] < 50);
}

#[test]
fn a_file_that_claims_to_be_huge_is_refused() {
    let mut bytes = encoded(&noise(2, 2), ImageFormat::Png);
    bytes[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let image = ImageContent::from_bytes(bytes).unwrap();
    let error = image.fit(&model(json!({"maxWidth": 100}))).unwrap_err();
    assert!(error.to_string().contains("it has 65536 x 65536 pixels"), "{error}");
}
