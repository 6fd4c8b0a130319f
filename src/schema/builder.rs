//! Schemas of tools that are defined at run time, piece by piece.

use serde_json::{Map, Value};

/// A JSON Schema under construction; [`object`], [`string`] and their like start one.
///
/// It turns into JSON with [`Value::from`]: first what the kind of schema fixes, then what was added, in the order of
/// the calls. A keyword that was added before is replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct Builder {
    shape: Shape,
    added: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Fixed(Map<String, Value>),
    Object { properties: Map<String, Value>, required: Vec<Value>, is_open: bool },
}

impl Builder {
    fn fixed<const N: usize>(keywords: [(&str, Value); N]) -> Builder {
        let keywords = keywords.into_iter().map(|(key, value)| (key.to_owned(), value));
        Builder { shape: Shape::Fixed(keywords.collect()), added: Map::new() }
    }

    fn of_type(name: &str) -> Builder {
        Builder::fixed([("type", name.into())])
    }

    /// Adds any keyword: the way to those that have no method here.
    #[must_use]
    pub fn with(mut self, keyword: impl Into<String>, value: impl Into<Value>) -> Builder {
        self.added.insert(keyword.into(), value.into());
        self
    }

    /// Adds a field that must be there; only objects have fields.
    #[must_use]
    pub fn required(mut self, name: impl Into<String>, schema: impl Into<Value>) -> Builder {
        let name = name.into();
        if let Shape::Object { properties, required, .. } = &mut self.shape {
            let value = Value::from(name.as_str());
            if !required.contains(&value) {
                required.push(value);
            }
            properties.insert(name, schema.into());
        }
        self
    }

    /// Adds a field that may be left out; only objects have fields.
    #[must_use]
    pub fn optional(mut self, name: impl Into<String>, schema: impl Into<Value>) -> Builder {
        let name = name.into();
        if let Shape::Object { properties, required, .. } = &mut self.shape {
            required.retain(|it| *it != *name);
            properties.insert(name, schema.into());
        }
        self
    }

    /// Lets an object have other fields than the ones it names.
    #[must_use]
    pub fn open(mut self) -> Builder {
        if let Shape::Object { is_open, .. } = &mut self.shape {
            *is_open = true;
        }
        self
    }

    /// The least length of a string, in characters.
    #[must_use]
    pub fn min_length(self, limit: usize) -> Builder {
        self.with("minLength", limit)
    }

    /// The greatest length of a string, in characters.
    #[must_use]
    pub fn max_length(self, limit: usize) -> Builder {
        self.with("maxLength", limit)
    }

    /// The regular expression that a string must match somewhere.
    #[must_use]
    pub fn pattern(self, pattern: impl Into<String>) -> Builder {
        self.with("pattern", pattern.into())
    }

    /// The format of a string, such as `date-time` or `uri`.
    #[must_use]
    pub fn format(self, name: impl Into<String>) -> Builder {
        self.with("format", name.into())
    }

    /// The least number.
    #[must_use]
    pub fn minimum(self, limit: impl Into<Value>) -> Builder {
        self.with("minimum", limit)
    }

    /// The greatest number.
    #[must_use]
    pub fn maximum(self, limit: impl Into<Value>) -> Builder {
        self.with("maximum", limit)
    }

    /// What a number must exceed.
    #[must_use]
    pub fn exclusive_minimum(self, limit: impl Into<Value>) -> Builder {
        self.with("exclusiveMinimum", limit)
    }

    /// What a number must stay below.
    #[must_use]
    pub fn exclusive_maximum(self, limit: impl Into<Value>) -> Builder {
        self.with("exclusiveMaximum", limit)
    }

    /// What a number must be a multiple of.
    #[must_use]
    pub fn multiple_of(self, step: impl Into<Value>) -> Builder {
        self.with("multipleOf", step)
    }

    /// The least number of items.
    #[must_use]
    pub fn min_items(self, limit: usize) -> Builder {
        self.with("minItems", limit)
    }

    /// The greatest number of items.
    #[must_use]
    pub fn max_items(self, limit: usize) -> Builder {
        self.with("maxItems", limit)
    }

    /// Wants items that all differ.
    #[must_use]
    pub fn unique_items(self) -> Builder {
        self.with("uniqueItems", true)
    }

    /// Says to the model what this is for.
    #[must_use]
    pub fn description(self, text: impl Into<String>) -> Builder {
        self.with("description", text.into())
    }

    /// A name for people.
    #[must_use]
    pub fn title(self, text: impl Into<String>) -> Builder {
        self.with("title", text.into())
    }

    /// What is meant when a field is left out; checking does not fill it in.
    #[must_use]
    pub fn default(self, value: impl Into<Value>) -> Builder {
        self.with("default", value)
    }

    /// Values that show what is meant.
    #[must_use]
    pub fn examples<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Builder {
        self.with("examples", values.into_iter().map(Into::into).collect::<Vec<Value>>())
    }

    /// Marks what should not be used any more.
    #[must_use]
    pub fn deprecated(self) -> Builder {
        self.with("deprecated", true)
    }
}

impl From<Builder> for Value {
    fn from(builder: Builder) -> Value {
        let mut keywords = match builder.shape {
            Shape::Fixed(keywords) => keywords,
            Shape::Object { properties, required, is_open } => {
                let mut keywords = Map::new();
                keywords.insert("type".to_owned(), "object".into());
                keywords.insert("properties".to_owned(), Value::Object(properties));
                if !required.is_empty() {
                    keywords.insert("required".to_owned(), Value::Array(required));
                }
                if !is_open {
                    keywords.insert("additionalProperties".to_owned(), Value::Bool(false));
                }
                keywords
            }
        };
        keywords.extend(builder.added);
        Value::Object(keywords)
    }
}

/// Any text.
pub fn string() -> Builder {
    Builder::of_type("string")
}

/// Any number.
pub fn number() -> Builder {
    Builder::of_type("number")
}

/// A whole number.
pub fn integer() -> Builder {
    Builder::of_type("integer")
}

/// True or false.
pub fn boolean() -> Builder {
    Builder::of_type("boolean")
}

/// Nothing but null.
pub fn null() -> Builder {
    Builder::of_type("null")
}

/// Anything at all.
pub fn unknown() -> Builder {
    Builder::fixed([])
}

/// Just this value.
pub fn lit(value: impl Into<Value>) -> Builder {
    Builder::fixed([("const", value.into())])
}

/// One of these values: JSON Schema's `enum`.
pub fn one_of<V: Into<Value>>(values: impl IntoIterator<Item = V>) -> Builder {
    Builder::fixed([("enum", list(values))])
}

/// One of these texts, with its type written out for vendors that want one.
pub fn string_enum<V: Into<String>>(values: impl IntoIterator<Item = V>) -> Builder {
    let values = values.into_iter().map(Into::into);
    Builder::fixed([("type", "string".into()), ("enum", list(values))])
}

/// What one of these schemas accepts, or several.
pub fn union<V: Into<Value>>(schemas: impl IntoIterator<Item = V>) -> Builder {
    Builder::fixed([("anyOf", list(schemas))])
}

/// What the schema accepts, or null.
pub fn nullable(schema: impl Into<Value>) -> Builder {
    Builder::fixed([("anyOf", Value::Array(vec![schema.into(), null().into()]))])
}

/// A list of items that are all alike.
pub fn array(items: impl Into<Value>) -> Builder {
    Builder::fixed([("type", "array".into()), ("items", items.into())])
}

/// A list of just these items.
pub fn tuple<V: Into<Value>>(items: impl IntoIterator<Item = V>) -> Builder {
    let items = items.into_iter().map(Into::into).collect::<Vec<Value>>();
    let count = items.len();
    Builder::fixed([
        ("type", "array".into()),
        ("prefixItems", Value::Array(items)),
        ("items", Value::Bool(false)),
        ("minItems", count.into()),
    ])
}

/// An object with any names and values that are all alike.
pub fn map(values: impl Into<Value>) -> Builder {
    Builder::fixed([("type", "object".into()), ("additionalProperties", values.into())])
}

/// An object, closed and empty until it gets fields by [`Builder::required`] and [`Builder::optional`].
pub fn object() -> Builder {
    let shape = Shape::Object { properties: Map::new(), required: Vec::new(), is_open: false };
    Builder { shape, added: Map::new() }
}

fn list<V: Into<Value>>(values: impl IntoIterator<Item = V>) -> Value {
    Value::Array(values.into_iter().map(Into::into).collect())
}
