//! Images from bytes and files, within what a model takes.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use base64::prelude::{BASE64_STANDARD, Engine as _};

use crate::{
    error::{Error, ErrorKind, Result},
    image::limits::Limits,
    message::ImageContent,
    model::Model,
};

mod format;
mod limits;
#[cfg(feature = "images")]
mod scale;
#[cfg(not(feature = "images"))]
#[path = "image/no_scale.rs"]
mod scale;
mod size;

impl ImageContent {
    /// Makes an image of the bytes of a PNG, JPEG, GIF or WebP file. The media type follows from the bytes; other formats
    /// are refused by name.
    ///
    /// # Examples
    ///
    /// ```
    /// use steerage::{Message, message::ImageContent};
    ///
    /// let gif = b"GIF89a\x01\0\x01\0\0\0\0;";
    /// let image = ImageContent::from_bytes(gif)?;
    /// assert_eq!((image.mime_type.as_str(), image.size()), ("image/gif", Some((1, 1))));
    /// let message = Message::user_with_images("What is this?", vec![image]);
    /// # Ok::<(), steerage::Error>(())
    /// ```
    pub fn from_bytes(bytes: impl AsRef<[u8]>) -> Result<ImageContent> {
        let bytes = bytes.as_ref();
        let mime_type = format::media_type(bytes).map_err(|what| no_image("the image", &what))?;
        Ok(ImageContent { data: BASE64_STANDARD.encode(bytes), mime_type: mime_type.to_owned() })
    }

    /// Makes an image of a file, as [`from_bytes`](ImageContent::from_bytes) does. A file of another format is not read
    /// beyond its first bytes.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use steerage::{Models, message::ImageContent};
    ///
    /// let model = Models::from_env().get("anthropic", "claude-sonnet-4-6")?;
    /// let image = ImageContent::from_file("screenshot.png")?.fit(&model)?;
    /// # Ok::<(), steerage::Error>(())
    /// ```
    pub fn from_file(path: impl AsRef<Path>) -> Result<ImageContent> {
        let path = path.as_ref();
        let failed = |error: io::Error| {
            let message = format!("the image {} cannot be read: {error}", path.display());
            Error::new(ErrorKind::Configuration, message)
        };
        let mut file = File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.by_ref().take(format::ENOUGH).read_to_end(&mut bytes).map_err(failed)?;
        let mime_type = format::media_type(&bytes)
            .map_err(|what| no_image(&format!("the file {}", path.display()), &what))?;
        file.read_to_end(&mut bytes).map_err(failed)?;
        Ok(ImageContent { data: BASE64_STANDARD.encode(bytes), mime_type: mime_type.to_owned() })
    }

    /// Width and height in pixels, as the first bytes tell them; `None` if they do not.
    pub fn size(&self) -> Option<(u32, u32)> {
        // Most formats tell it at once; a JPEG may have a long comment before it.
        let start = self.data.get(..4 * 1024).unwrap_or(&self.data);
        let decode = |text: &str| BASE64_STANDARD.decode(text).ok();
        size::of(&decode(start)?).or_else(|| size::of(&decode(&self.data)?))
    }

    /// Makes the image fit what a model takes: width, height and length of the base64 text, as [`Model::input_limits`] says.
    ///
    /// An image that fits is returned as it is. One that does not is scaled down and turned upright with the feature
    /// `images`, of an animation the first picture; without the feature it is an error that says by how much it is too large.
    /// A model that takes no images, or a picture that cannot be decoded, is an error too. It takes time (tenths of a second
    /// for a photo); call it on a thread that may work.
    pub fn fit(self, model: &Model) -> Result<ImageContent> {
        if !model.takes_images() {
            let message = format!("the model `{}` takes no images: use another one", model.id);
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        match Limits::of(model).excess(self.size(), self.data.len()) {
            None => Ok(self),
            Some(excess) => {
                let excess =
                    format!("the image is too large for the model `{}`: {excess}", model.id);
                scale::down(&self, model, &excess)
            }
        }
    }
}

fn no_image(which: &str, what: &str) -> Error {
    let message = format!("{which} {what}: models take PNG, JPEG, GIF and WebP");
    Error::new(ErrorKind::Configuration, message)
}
