//! A chunk of a response as it stands in the frame: texts are borrowed, and no field has to have the right type.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{
        IgnoredAny, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use serde_json::Value;

/// One chunk. Every field may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Loose<'a>,
    #[serde(borrow)]
    pub(super) model: Loose<'a>,
    #[serde(borrow)]
    pub(super) choices: FirstChoice<'a>,
    #[serde(borrow)]
    pub(super) usage: Loose<'a>,
    #[serde(borrow)]
    pub(super) error: Loose<'a>,
}

/// The first choice of a chunk; nobody asked for others.
#[derive(Debug, Default)]
pub(super) struct FirstChoice<'a> {
    pub(super) choice: Option<Choice<'a>>,
    /// Whether null stands in its place.
    pub(super) is_null: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Loose<'a>,
    #[serde(borrow)]
    pub(super) usage: Loose<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Loose<'a>,
    #[serde(borrow)]
    pub(super) refusal: Loose<'a>,
    #[serde(borrow)]
    pub(super) reasoning_content: Loose<'a>,
    #[serde(borrow)]
    pub(super) reasoning: Loose<'a>,
    #[serde(borrow)]
    pub(super) reasoning_text: Loose<'a>,
    #[serde(borrow)]
    pub(super) reasoning_details: Loose<'a>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<Option<CallDelta<'a>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta<'a> {
    #[serde(borrow)]
    pub(super) index: Loose<'a>,
    #[serde(borrow)]
    pub(super) id: Loose<'a>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Loose<'a>,
    #[serde(borrow)]
    pub(super) function: Option<FunctionDelta<'a>>,
    #[serde(borrow)]
    pub(super) custom: Option<CustomDelta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow)]
    pub(super) name: Loose<'a>,
    #[serde(borrow)]
    pub(super) arguments: Loose<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CustomDelta<'a> {
    #[serde(borrow)]
    pub(super) name: Loose<'a>,
    #[serde(borrow)]
    pub(super) input: Loose<'a>,
}

/// A value that is a text, if all is well.
#[derive(Debug, Default)]
pub(super) enum Loose<'a> {
    #[default]
    Null,
    Text(Cow<'a, str>),
    Number(u64),
    Other(Box<Value>),
}

impl Loose<'_> {
    /// The text; empty for anything else.
    pub(super) fn text(&self) -> &str {
        match self {
            Loose::Text(text) => text,
            Loose::Null | Loose::Number(_) | Loose::Other(_) => "",
        }
    }

    /// The text, or the JSON of any other value; null is empty.
    pub(super) fn any_text(&self) -> Cow<'_, str> {
        match self {
            Loose::Text(text) => Cow::Borrowed(text),
            Loose::Number(number) => Cow::Owned(number.to_string()),
            Loose::Other(value) => Cow::Owned(value.to_string()),
            Loose::Null => Cow::Borrowed(""),
        }
    }

    /// The number, also from a text.
    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Loose::Number(number) => Some(*number),
            Loose::Text(text) => text.parse().ok(),
            Loose::Null | Loose::Other(_) => None,
        }
    }

    /// The value, if it is a list or an object.
    pub(super) fn container(&self) -> Option<&Value> {
        match self {
            Loose::Other(value) if value.is_array() || value.is_object() => Some(value),
            _ => None,
        }
    }
}

/// Reads a chunk; `None` for JSON that is no object.
pub(super) fn read<T>(
    data: &str,
    take: impl FnOnce(Chunk<'_>) -> T,
) -> Result<Option<T>, serde_json::Error> {
    if !data.trim_start().starts_with('{') {
        return serde_json::from_str::<IgnoredAny>(data).map(|_| None);
    }
    match serde_json::from_str(data) {
        Ok(chunk) => Ok(Some(take(chunk))),
        // A key that stands there twice is fine with most readers: read on, the last one wins.
        Err(error) => match serde_json::from_str::<Value>(data) {
            Ok(value) => Chunk::deserialize(&value).map(take).map(Some),
            Err(_) => Err(error),
        },
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Loose<'a>, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for FirstChoice<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FirstChoice<'a>, D::Error> {
        deserializer.deserialize_any(FirstChoiceVisitor)
    }
}

struct LooseVisitor;
struct FirstChoiceVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Loose<'de>, E> {
        Ok(Loose::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Loose<'de>, E> {
        Ok(Loose::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Loose<'de>, E> {
        Ok(Loose::Text(Cow::Owned(text)))
    }

    fn visit_unit<E>(self) -> Result<Loose<'de>, E> {
        Ok(Loose::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Loose<'de>, E> {
        Ok(Loose::Other(Box::new(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Loose<'de>, E> {
        Ok(Loose::Number(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Loose<'de>, E> {
        Ok(Loose::Other(Box::new(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Loose<'de>, E> {
        Ok(Loose::Other(Box::new(value.into())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Loose<'de>, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(items)).map(|it| Loose::Other(Box::new(it)))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Loose<'de>, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(fields)).map(|it| Loose::Other(Box::new(it)))
    }
}

impl<'de> Visitor<'de> for FirstChoiceVisitor {
    type Value = FirstChoice<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of choices")
    }

    fn visit_unit<E>(self) -> Result<FirstChoice<'de>, E> {
        Ok(FirstChoice::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<FirstChoice<'de>, A::Error> {
        let Some(choice) = items.next_element::<Option<Choice<'de>>>()? else {
            return Ok(FirstChoice::default());
        };
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(FirstChoice { is_null: choice.is_none(), choice })
    }
}
