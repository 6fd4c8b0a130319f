//! Width and height of an image by its header, without decoding it.

/// Width and height in pixels; `None` if the bytes do not tell.
pub(super) fn of(bytes: &[u8]) -> Option<(u32, u32)> {
    let size = match bytes {
        [0x89, b'P', b'N', b'G', ..] => (big(bytes, 16, 4)?, big(bytes, 20, 4)?),
        [b'G', b'I', b'F', ..] => (little(bytes, 6, 2)?, little(bytes, 8, 2)?),
        [b'R', b'I', b'F', b'F', ..] => webp(bytes)?,
        [0xff, 0xd8, ..] => jpeg(bytes)?,
        _ => return None,
    };
    (size.0 > 0 && size.1 > 0).then_some(size)
}

/// The segments up to the one that begins a picture.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut place = 2;
    loop {
        // Any number of fill bytes may stand before a marker.
        while *bytes.get(place)? == 0xff {
            place += 1;
        }
        let marker = *bytes.get(place)?;
        match marker {
            // C4, C8 and CC are tables and the like.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some((big(bytes, place + 6, 2)?, big(bytes, place + 4, 2)?));
            }
            // These have no length.
            0x01 | 0xd0..=0xd7 => place += 1,
            _ => place += 1 + usize::try_from(big(bytes, place + 1, 2)?).ok()?,
        }
        if *bytes.get(place)? != 0xff {
            return None;
        }
    }
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8 " => Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff)),
        b"VP8L" => {
            let bits = little(bytes, 21, 4)?;
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

fn big(bytes: &[u8], place: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(place..place + length)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little(bytes: &[u8], place: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(place..place + length)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}
