//! Fields of a body that model and request ask for by name.

use serde_json::{Map, Value};

use crate::{
    model::{Model, ThinkingLevel},
    stream::StreamOptions,
};

/// Merges what the model and the request say of sampling; it wins over named fields.
pub(crate) fn write(
    body: &mut Map<String, Value>,
    model: &Model,
    level: ThinkingLevel,
    options: &StreamOptions,
) {
    let by_level = model.sampling_params_by_thinking_level.as_ref();
    let at_level = by_level.and_then(|it| it.get(level.as_str())).and_then(Value::as_object);
    let all = [model.sampling_params.as_ref(), at_level, options.sampling_params.as_ref()];
    for (name, value) in all.into_iter().flatten().flatten() {
        body.insert(name.clone(), value.clone());
    }
}
