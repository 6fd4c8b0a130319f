//! The JSON form of a message: tagged by `role`, unknown roles kept field for field.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use crate::message::{
    AssistantMessage, CustomMessage, Message, SystemMessage, ToolResultMessage, UserMessage,
};

#[derive(Serialize)]
#[serde(tag = "role")]
enum Known<'a> {
    #[serde(rename = "system")]
    System(&'a SystemMessage),
    #[serde(rename = "user")]
    User(&'a UserMessage),
    #[serde(rename = "assistant")]
    Assistant(&'a AssistantMessage),
    #[serde(rename = "toolResult")]
    ToolResult(&'a ToolResultMessage),
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Message::System(it) => Known::System(it).serialize(serializer),
            Message::User(it) => Known::User(it).serialize(serializer),
            Message::Assistant(it) => Known::Assistant(it).serialize(serializer),
            Message::ToolResult(it) => Known::ToolResult(it).serialize(serializer),
            Message::Custom(it) => it.fields.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Message, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let role = match fields.get("role") {
            Some(Value::String(role)) => role.clone(),
            _ => return Err(de::Error::missing_field("role")),
        };
        if !matches!(role.as_str(), "system" | "user" | "assistant" | "toolResult") {
            return Ok(Message::Custom(CustomMessage { fields }));
        }
        // `shift_remove` keeps the order of the other fields, which may be extra ones.
        fields.shift_remove("role");
        let body = Value::Object(fields);
        let message = match role.as_str() {
            "system" => serde_json::from_value(body).map(Message::System),
            "user" => serde_json::from_value(body).map(Message::User),
            "assistant" => serde_json::from_value(body).map(Message::Assistant),
            _ => serde_json::from_value(body).map(Message::ToolResult),
        };
        message.map_err(|error| de::Error::custom(format_args!("{role} message: {error}")))
    }
}

/// Reads a field that is there, be it null.
pub(crate) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Reads content; some old transcripts have a null where there is none.
pub(super) fn null_as_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
