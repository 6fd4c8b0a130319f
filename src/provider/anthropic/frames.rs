//! The frames of a response as they are read: without a tree where they are what they should be, else as far as they make
//! sense.

use std::borrow::Cow;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{error::Error, partial_json::repair::from_str_repaired, provider::anthropic::failure};

/// A frame that is not quite what it should be is read as a tree.
pub(super) trait Frame: DeserializeOwned {
    fn of(event: &Value) -> Self;
}

/// The one frame that comes in masses.
#[derive(Debug, Deserialize)]
pub(super) struct BlockDelta<'a> {
    pub(super) index: u64,
    #[serde(borrow)]
    pub(super) delta: Delta<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) thinking: Option<String>,
    #[serde(default)]
    pub(super) partial_json: Option<String>,
    #[serde(default)]
    pub(super) signature: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct BlockStart {
    #[serde(default)]
    pub(super) index: u64,
    #[serde(rename = "content_block", default)]
    pub(super) block: Block,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Block {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) text: String,
    #[serde(default)]
    pub(super) thinking: String,
    #[serde(default)]
    pub(super) signature: String,
    #[serde(default)]
    pub(super) data: String,
    #[serde(default)]
    pub(super) id: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) input: Option<Map<String, Value>>,
}

/// The end of a block, or of the message.
#[derive(Debug, Deserialize)]
pub(super) struct Stop {
    #[serde(default)]
    pub(super) index: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct MessageStart {
    #[serde(default)]
    pub(super) message: Head,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Head {
    #[serde(default)]
    pub(super) id: String,
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    pub(super) usage: Value,
    #[serde(default)]
    pub(super) input_transformations: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct MessageDelta {
    #[serde(default)]
    pub(super) delta: Ending,
    #[serde(default)]
    pub(super) usage: Value,
    #[serde(default)]
    pub(super) input_transformations: Value,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Ending {
    #[serde(default)]
    pub(super) stop_reason: Option<String>,
    #[serde(default)]
    pub(super) stop_details: Value,
}

/// Reads a frame.
pub(super) fn read<F: Frame>(name: &str, data: &str) -> Result<F, Error> {
    // An array would pass for the fields in their order.
    if data.trim_start().starts_with('{')
        && let Ok(frame) = serde_json::from_str(data)
    {
        return Ok(frame);
    }
    Ok(F::of(&tree(name, data)?))
}

/// Reads a frame as a tree, with what can be repaired in it.
pub(super) fn tree(name: &str, data: &str) -> Result<Value, Error> {
    match from_str_repaired::<Value>(data) {
        Ok(event) if event.is_object() => Ok(event),
        Ok(_) => Err(failure::malformed(name, "it is no JSON object")),
        Err(error) => Err(failure::malformed(name, &error.to_string())),
    }
}

/// The server's number of a block; one without a number is the first.
fn index(event: &Value) -> u64 {
    event["index"].as_u64().unwrap_or_default()
}

fn text(of: &Value, name: &str) -> String {
    of[name].as_str().unwrap_or_default().to_owned()
}

impl<'a> BlockDelta<'a> {
    pub(super) fn of(event: &'a Value) -> BlockDelta<'a> {
        let delta = &event["delta"];
        let text = |name: &str| delta[name].as_str().map(str::to_owned);
        BlockDelta {
            index: index(event),
            delta: Delta {
                kind: Cow::Borrowed(delta["type"].as_str().unwrap_or_default()),
                text: text("text"),
                thinking: text("thinking"),
                partial_json: text("partial_json"),
                signature: text("signature"),
            },
        }
    }
}

impl Frame for BlockStart {
    fn of(event: &Value) -> BlockStart {
        let block = &event["content_block"];
        BlockStart {
            index: index(event),
            block: Block {
                kind: text(block, "type"),
                text: text(block, "text"),
                thinking: text(block, "thinking"),
                signature: text(block, "signature"),
                data: text(block, "data"),
                id: text(block, "id"),
                name: text(block, "name"),
                input: block["input"].as_object().cloned(),
            },
        }
    }
}

impl Frame for Stop {
    fn of(event: &Value) -> Stop {
        Stop { index: index(event) }
    }
}

impl Frame for MessageStart {
    fn of(event: &Value) -> MessageStart {
        let message = &event["message"];
        MessageStart {
            message: Head {
                id: text(message, "id"),
                model: text(message, "model"),
                usage: message["usage"].clone(),
                input_transformations: message["input_transformations"].clone(),
            },
        }
    }
}

impl Frame for MessageDelta {
    fn of(event: &Value) -> MessageDelta {
        let delta = &event["delta"];
        MessageDelta {
            delta: Ending {
                stop_reason: delta["stop_reason"].as_str().map(str::to_owned),
                stop_details: delta["stop_details"].clone(),
            },
            usage: event["usage"].clone(),
            input_transformations: event["input_transformations"].clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    /// A frame must say the same, whichever way it is read.
    #[track_caller]
    fn check<F: Frame + Debug>(data: &str) {
        let direct = format!("{:?}", read::<F>("frame", data).unwrap());
        let by_tree = F::of(&tree("frame", data).unwrap());
        assert_eq!(direct, format!("{by_tree:?}"), "{data}");
    }

    #[test]
    fn a_frame_says_the_same_whichever_way_it_is_read() {
        check::<BlockStart>(
            r#"{"index":2,"content_block":{"type":"tool_use","id":"t","name":"n","input":{"a":1}}}"#,
        );
        check::<BlockStart>(r#" {"index":null,"content_block":{"type":"text","text":7}}"#);
        check::<BlockStart>(r#"{"content_block":null}"#);
        check::<BlockStart>(r#"{"index":1,"index":2}"#);
        check::<Stop>(r#"{"type":"content_block_stop","index":3}"#);
        check::<Stop>(r#"{"index":-1}"#);
        check::<MessageStart>(r#"{"message":{"id":"m","model":"x","usage":{"input_tokens":1}}}"#);
        check::<MessageStart>(r#"{"message":{"id":null,"usage":null}}"#);
        check::<MessageDelta>(
            r#"{"delta":{"stop_reason":"refusal","stop_details":{"explanation":"no"}},"usage":{}}"#,
        );
        check::<MessageDelta>(r#"{"delta":{"stop_reason":1},"input_transformations":[{}]}"#);
        check::<MessageDelta>("{}");
    }

    #[test]
    fn a_frame_that_is_no_object_is_malformed() {
        for data in ["[0]", "7", "{", ""] {
            assert!(read::<Stop>("frame", data).is_err(), "{data}");
        }
    }
}
