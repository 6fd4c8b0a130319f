//! What a tool takes, read from its schema, and arguments for it from a request.

use serde_json::{Map, Number, Value};

use crate::{builtin::request::Request, message::ToolDeclaration};

/// A parameter of a tool.
pub(super) struct Parameter<'a> {
    pub(super) name: &'a str,
    pub(super) kind: Kind<'a>,
    pub(super) required: bool,
    schema: &'a Value,
}

/// What a parameter takes.
#[derive(Debug, PartialEq)]
pub(super) enum Kind<'a> {
    Text,
    /// One of a few texts.
    Choice(Vec<&'a str>),
    Number,
    Integer,
    Flag,
    List,
    Other,
}

/// The parameters of a tool in their order.
pub(super) fn parameters(tool: &ToolDeclaration) -> Vec<Parameter<'_>> {
    let required: Vec<&str> = strings(tool.parameters.get("required"));
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| Parameter {
            name,
            kind: kind(schema),
            required: required.contains(&name.as_str()),
            schema,
        })
        .collect()
}

/// Arguments for a tool: `subject` is the one text that the call is about, the rest comes from the request. What it does
/// not ask for is left out.
pub(super) fn fill(
    tool: &ToolDeclaration,
    subject: Option<&str>,
    request: &Request,
) -> Map<String, Value> {
    let mut numbers = request.numbers().into_iter();
    let mut subject = subject;
    let mut arguments = Map::new();
    for parameter in parameters(tool) {
        let value = match &parameter.kind {
            Kind::Choice(choices) => {
                let said = choices.iter().find(|choice| request.says(&[&choice.to_lowercase()]));
                said.or(choices.first().filter(|_| parameter.required)).map(|it| (*it).into())
            }
            Kind::Text => match subject.take() {
                Some(subject) => Some(subject.into()),
                None => parameter.required.then(|| request.topic().into()),
            },
            Kind::Number | Kind::Integer => {
                let given = numbers.next().map(|number| parameter.number(number));
                given.or_else(|| parameter.required.then(|| parameter.usual_number()))
            }
            Kind::Flag => parameter.required.then_some(Value::Bool(false)),
            Kind::List => parameter.required.then(|| Value::Array(vec![request.topic().into()])),
            Kind::Other => parameter.required.then(|| Value::Object(Map::new())),
        };
        if let Some(value) = value {
            arguments.insert(parameter.name.to_owned(), value);
        }
    }
    arguments
}

impl Parameter<'_> {
    /// A number in the form that the parameter takes.
    pub(super) fn number(&self, value: f64) -> Value {
        let least = self.schema.get("minimum").and_then(Value::as_f64).unwrap_or(f64::MIN);
        let most = self.schema.get("maximum").and_then(Value::as_f64).unwrap_or(f64::MAX);
        number(if least <= most { value.clamp(least, most) } else { value })
    }

    fn usual_number(&self) -> Value {
        let usual = ["default", "minimum"].iter().find_map(|key| self.schema.get(*key)?.as_f64());
        self.number(usual.unwrap_or(1.0))
    }
}

/// Whole numbers are written without a point.
pub(super) fn number(value: f64) -> Value {
    /// Up to here a float holds every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation)]
    if value.fract() == 0.0 && value.abs() < EXACT {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn kind(schema: &Value) -> Kind<'_> {
    let choices = strings(schema.get("enum"));
    if !choices.is_empty() {
        return Kind::Choice(choices);
    }
    for key in ["anyOf", "oneOf"] {
        let Some(forms) = schema.get(key).and_then(Value::as_array) else { continue };
        let constants: Vec<&str> =
            forms.iter().filter_map(|form| form.get("const")?.as_str()).collect();
        if !constants.is_empty() {
            return Kind::Choice(constants);
        }
        return forms.iter().map(kind).find(|kind| *kind != Kind::Other).unwrap_or(Kind::Other);
    }
    let named = match schema.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        names => strings(names).into_iter().find(|name| *name != "null"),
    };
    match named {
        Some("string") => Kind::Text,
        Some("number") => Kind::Number,
        Some("integer") => Kind::Integer,
        Some("boolean") => Kind::Flag,
        Some("array") => Kind::List,
        _ => Kind::Other,
    }
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}
