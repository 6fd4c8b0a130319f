//! Scaling by the `image` crate.

use std::io::Cursor;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use image::{
    DynamicImage, ImageDecoder as _, ImageError, ImageReader, Limits as DecoderLimits,
    codecs::jpeg::JpegEncoder, imageops::FilterType, metadata::Orientation,
};

use crate::{
    error::{Error, ErrorKind, Result},
    image::limits::{Limits, number},
    message::ImageContent,
    model::Model,
};

/// How much memory a decoder may take: a picture of 100 million pixels fits, a file that claims more is refused.
const MOST_MEMORY: u64 = 512 << 20;

/// A picture is not made smaller than this.
const SMALLEST: u32 = 16;

/// Makes the image fit the limits of the model. `excess` says why it does not.
pub(super) fn down(image: &ImageContent, model: &Model, excess: &str) -> Result<ImageContent> {
    let failed = |error: &dyn std::fmt::Display| {
        let message = format!("{excess}; and it cannot be scaled down: {error}");
        Error::new(ErrorKind::Limit, message)
    };
    let limits = Limits::of(model);
    let quality = number(model, "jpegQuality").and_then(|it| u8::try_from(it).ok()).unwrap_or(80);
    let bytes = BASE64_STANDARD.decode(&image.data).map_err(|error| failed(&error))?;
    let mut picture = decode(&bytes).map_err(|error| failed(&error))?;
    picture = within(picture, limits.width, limits.height);
    let prefers_png = image.mime_type != "image/jpeg";
    loop {
        for png in [true, false] {
            if png && !prefers_png {
                continue;
            }
            let (bytes, mime_type) =
                encode(&picture, png, quality).map_err(|error| failed(&error))?;
            if limits.length.is_none_or(|most| bytes.len().div_ceil(3) * 4 <= most) {
                let data = BASE64_STANDARD.encode(bytes);
                return Ok(ImageContent { data, mime_type: mime_type.to_owned() });
            }
        }
        let (width, height) = (picture.width(), picture.height());
        if width.min(height) <= SMALLEST {
            return Err(failed(&"not even a tiny one fits"));
        }
        let less = |side: u32| Some((side / 4 * 3).max(1));
        picture = within(picture, less(width), less(height));
    }
}

/// Decodes a picture and turns it upright.
fn decode(bytes: &[u8]) -> Result<DynamicImage, ImageError> {
    let mut limits = DecoderLimits::default();
    limits.max_alloc = Some(MOST_MEMORY);
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
    reader.limits(limits);
    let mut decoder = reader.into_decoder()?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut picture = DynamicImage::from_decoder(decoder)?;
    picture.apply_orientation(orientation);
    Ok(picture)
}

fn within(picture: DynamicImage, width: Option<u32>, height: Option<u32>) -> DynamicImage {
    let (width, height) = (width.unwrap_or(u32::MAX), height.unwrap_or(u32::MAX));
    if picture.width() <= width && picture.height() <= height {
        return picture;
    }
    // Both in proportion: `resize` keeps it.
    picture.resize(width.min(picture.width()), height.min(picture.height()), FilterType::CatmullRom)
}

fn encode(
    picture: &DynamicImage,
    png: bool,
    quality: u8,
) -> Result<(Vec<u8>, &'static str), ImageError> {
    let mut bytes = Vec::new();
    if png {
        picture.write_to(&mut Cursor::new(&mut bytes), image::ImageFormat::Png)?;
        return Ok((bytes, "image/png"));
    }
    JpegEncoder::new_with_quality(&mut bytes, quality).encode_image(&on_white(picture))?;
    Ok((bytes, "image/jpeg"))
}

/// The picture without transparency, which a JPEG does not have.
fn on_white(picture: &DynamicImage) -> DynamicImage {
    if !picture.color().has_alpha() {
        return DynamicImage::ImageRgb8(picture.to_rgb8());
    }
    let mut flat = image::RgbImage::new(picture.width(), picture.height());
    for (place, pixel) in picture.to_rgba8().enumerate_pixels().map(|(x, y, it)| ((x, y), it)) {
        let [colours @ .., alpha] = pixel.0;
        let mix = |colour: u8| {
            let mixed =
                (u16::from(colour) * u16::from(alpha) + 255 * (255 - u16::from(alpha))) / 255;
            u8::try_from(mixed).unwrap_or(u8::MAX)
        };
        flat.put_pixel(place.0, place.1, image::Rgb(colours.map(mix)));
    }
    DynamicImage::ImageRgb8(flat)
}
