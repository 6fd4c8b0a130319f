//! What a model takes.

use serde_json::Value;

use crate::model::Model;

/// The limits of one image; what is `None` is not limited, or not known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) width: Option<u32>,
    pub(super) height: Option<u32>,
    /// Of the base64 text.
    pub(super) length: Option<usize>,
}

impl Limits {
    pub(super) fn of(model: &Model) -> Limits {
        let number = |name: &str| number(model, name);
        let side = |name: &str| number(name).and_then(|it| u32::try_from(it).ok());
        Limits {
            width: side("maxWidth"),
            height: side("maxHeight"),
            length: number("maxBytes").and_then(|it| usize::try_from(it).ok()),
        }
    }

    /// Says by what an image is too large; `None` if it fits.
    pub(super) fn excess(&self, size: Option<(u32, u32)>, length: usize) -> Option<String> {
        let mut said = Vec::new();
        if let Some((width, height)) = size
            && (self.width.is_some_and(|it| width > it)
                || self.height.is_some_and(|it| height > it))
        {
            let most = |side: Option<u32>| side.map_or("any".to_owned(), |it| it.to_string());
            let (wide, high) = (most(self.width), most(self.height));
            said.push(format!("it has {width} x {height} pixels of at most {wide} x {high}"));
        }
        if let Some(most) = self.length.filter(|it| length > *it) {
            said.push(format!("it has {length} bytes in base64 of at most {most}"));
        }
        (!said.is_empty()).then(|| said.join(", and "))
    }
}

/// A number of what is said of scaling; 0 says nothing.
pub(super) fn number(model: &Model, name: &str) -> Option<u64> {
    let resize = model.input_limits.as_ref()?.get("images")?.get("resize")?;
    resize.get(name).and_then(Value::as_u64).filter(|it| *it > 0)
}
