//! The type names of JSON Schema, and sets of what they admit.

use std::ops::{BitAnd, BitOr};

use serde_json::Value;

use crate::schema::convert;

/// A type name of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Type {
    /// The narrowest type of a value.
    pub(super) fn of(value: &Value) -> Type {
        match value {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Boolean,
            Value::Number(number) if convert::has_fraction(number) => Type::Number,
            Value::Number(_) => Type::Integer,
            Value::String(_) => Type::String,
            Value::Array(_) => Type::Array,
            Value::Object(_) => Type::Object,
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Type> {
        Some(match name {
            "null" => Type::Null,
            "boolean" => Type::Boolean,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "string" => Type::String,
            "array" => Type::Array,
            "object" => Type::Object,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Type::Null => "null",
            Type::Boolean => "boolean",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::String => "string",
            Type::Array => "array",
            Type::Object => "object",
        }
    }
}

/// A set of kinds of values; whole numbers and fractions are two kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const NONE: Kinds = Kinds(0);
    pub(super) const NULL: Kinds = Kinds(1);
    pub(super) const OBJECT: Kinds = Kinds(1 << 6);
    pub(super) const ALL: Kinds = Kinds(0x7f);
    const WHOLE: Kinds = Kinds(1 << 2);
    const FRACTION: Kinds = Kinds(1 << 3);

    pub(super) fn of(value: &Value) -> Kinds {
        match Type::of(value) {
            Type::Number => Kinds::FRACTION,
            it => it.into(),
        }
    }

    pub(super) fn contains(self, other: Kinds) -> bool {
        self & other == other
    }

    /// The shortest list of type names that says the same.
    pub(super) fn types(self) -> Vec<Type> {
        let all = [
            Type::String,
            Type::Number,
            Type::Integer,
            Type::Boolean,
            Type::Array,
            Type::Object,
            Type::Null,
        ];
        let mut types = all.into_iter().filter(|&it| self.contains(it.into())).collect::<Vec<_>>();
        if types.contains(&Type::Number) {
            types.retain(|&it| it != Type::Integer);
        }
        types
    }
}

impl From<Type> for Kinds {
    fn from(it: Type) -> Kinds {
        match it {
            Type::Null => Kinds::NULL,
            Type::Boolean => Kinds(1 << 1),
            Type::Integer => Kinds::WHOLE,
            Type::Number => Kinds::WHOLE | Kinds::FRACTION,
            Type::String => Kinds(1 << 4),
            Type::Array => Kinds(1 << 5),
            Type::Object => Kinds::OBJECT,
        }
    }
}

impl BitAnd for Kinds {
    type Output = Kinds;

    fn bitand(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }
}

impl BitOr for Kinds {
    type Output = Kinds;

    fn bitor(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }
}

/// Names types in a sentence: `string, array or null`.
pub(super) fn list(types: &[Type]) -> String {
    let names = types.iter().map(|it| it.name()).collect::<Vec<_>>();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => "nothing".to_owned(),
    }
}
