//! A chunk of a response as it stands in the frame: texts are borrowed, and no field has to have the right type.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        IgnoredAny, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use serde_json::Value;

use crate::provider::halves;

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
    pub(super) delta: Object<Delta<'a>>,
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
    pub(super) tool_calls: List<CallDelta<'a>>,
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
    pub(super) function: Object<FunctionDelta<'a>>,
    #[serde(borrow)]
    pub(super) custom: Object<CustomDelta<'a>>,
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

/// A value that is an object, if all is well; nothing for anything else.
#[derive(Debug)]
pub(super) struct Object<T>(Option<T>);

/// A value that is a list of objects, if all is well; empty for anything else.
#[derive(Debug)]
pub(super) struct List<T>(pub(super) Vec<Object<T>>);

/// A value that is a text, if all is well.
#[derive(Debug, Default)]
pub(super) enum Loose<'a> {
    #[default]
    Null,
    Text(Cow<'a, str>),
    Number(u64),
    Other(Box<Value>),
}

impl<T> Object<T> {
    /// The object.
    pub(super) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<T> Default for Object<T> {
    fn default() -> Object<T> {
        Object(None)
    }
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List(Vec::new())
    }
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

/// Reads a chunk; `None` for JSON that is no object. `take` learns whether texts hold marks of half characters.
pub(super) fn read<T>(
    data: &str,
    take: impl FnOnce(Chunk<'_>, bool) -> T,
) -> Result<Option<T>, serde_json::Error> {
    if !data.trim_start().starts_with('{') {
        return serde_json::from_str::<IgnoredAny>(data).map(|_| None);
    }
    match serde_json::from_str(data) {
        Ok(chunk) => Ok(Some(take(chunk, false))),
        Err(error) => {
            let marked = halves::mark(data);
            let has_marks = matches!(marked, Cow::Owned(_));
            // A key that stands there twice is fine with most readers: read on, the last one wins.
            let value: Value = serde_json::from_str(&marked).map_err(|_| error)?;
            Chunk::deserialize(&value).map(|chunk| Some(take(chunk, has_marks)))
        }
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

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List<T>, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

struct LooseVisitor;
struct FirstChoiceVisitor;
struct ObjectVisitor<T>(PhantomData<T>);
struct ListVisitor<T>(PhantomData<T>);

/// Takes null, numbers and texts for `$nothing`.
macro_rules! without {
    ($nothing:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($nothing)
        }
    };
}

/// Takes an object for `$nothing`.
macro_rules! without_object {
    ($nothing:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
            while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($nothing)
        }
    };
}

/// Takes a list for `$nothing`.
macro_rules! without_list {
    ($nothing:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            Ok($nothing)
        }
    };
}

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

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<FirstChoice<'de>, A::Error> {
        let Some(choice) = items.next_element::<Option<Object<Choice<'de>>>>()? else {
            return Ok(FirstChoice::default());
        };
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(FirstChoice { is_null: choice.is_none(), choice: choice.and_then(|it| it.0) })
    }

    without!(FirstChoice::default());
    without_object!(FirstChoice::default());
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(|it| Object(Some(it)))
    }

    without!(Object(None));
    without_list!(Object(None));
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<List<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(List)
    }

    without!(List(Vec::new()));
    without_object!(List(Vec::new()));
}
