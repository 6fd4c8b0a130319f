//! A catalogue of one's own, from JSON.

use serde_json::{Map, Value};

use crate::{
    error::{Error, ErrorKind, Result},
    model::Model,
    models::{
        Models, near,
        provider::{KeySource, Provider},
    },
};

const FIELDS: [&str; 7] = ["name", "baseUrl", "api", "headers", "compat", "apiKeyEnv", "models"];

/// Reads the whole text before anything of it is laid over `models`.
pub(super) fn apply(models: &Models, text: &str) -> Result<()> {
    let whole: Value =
        serde_json::from_str(text).map_err(|error| refused("", &format!("is no JSON: {error}")))?;
    let Value::Object(mut whole) = whole else {
        return Err(refused("", "is no object, by provider"));
    };
    if whole.len() == 1
        && let Some(Value::Object(inner)) = whole.get_mut("providers")
    {
        whole = std::mem::take(inner);
    }
    let providers: Vec<Provider> =
        whole.iter().map(|(id, value)| provider(models, id, value)).collect::<Result<_>>()?;
    for provider in providers {
        models.add(provider);
    }
    Ok(())
}

fn provider(models: &Models, id: &str, value: &Value) -> Result<Provider> {
    let before = models.provider(id).ok();
    let is_new = before.is_none();
    let mut provider = before.unwrap_or_else(|| Provider::new(id, ""));
    let list = match value {
        Value::Array(list) => list.as_slice(),
        Value::Object(fields) => {
            set_fields(&mut provider, fields)?;
            match fields.get("models") {
                None => &[],
                Some(Value::Array(list)) => list.as_slice(),
                Some(_) => return Err(refused(id, "has `models` that are no list")),
            }
        }
        _ => return Err(refused(id, "is neither an object nor a list of models")),
    };
    for value in list {
        let mut model = model(models, id, value)?;
        if !provider.base_url.is_empty() && value.get("baseUrl").is_none() {
            model.base_url.clear();
        }
        if is_new && provider.base_url.is_empty() && model.base_url.is_empty() {
            return Err(refused(id, &format!("has no `baseUrl`, and neither has `{}`", model.id)));
        }
        provider.models.retain(|it| it.id != model.id);
        provider.models.push(model);
    }
    Ok(provider)
}

fn set_fields(provider: &mut Provider, fields: &Map<String, Value>) -> Result<()> {
    let id = provider.id.clone();
    let text = |name: &str, value: &Value| {
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| refused(&id, &format!("has no text as `{name}`")))
    };
    for (name, value) in fields {
        match name.as_str() {
            "name" => provider.name = text(name, value)?,
            "baseUrl" => provider.base_url = text(name, value)?,
            "api" => provider.api = text(name, value)?,
            "compat" => match value {
                Value::Object(compat) => provider.compat.extend(compat.clone()),
                _ => return Err(refused(&id, "has a `compat` that is no object")),
            },
            "headers" => {
                let Value::Object(headers) = value else {
                    return Err(refused(&id, "has `headers` that are no object"));
                };
                for (name, value) in headers {
                    let value = if value.is_null() { None } else { Some(text(name, value)?) };
                    provider.headers.push((name.clone(), value));
                }
            }
            "apiKeyEnv" => {
                let names = match value {
                    Value::Array(names) => {
                        names.iter().map(|it| text(name, it)).collect::<Result<_>>()?
                    }
                    one => vec![text(name, one)?],
                };
                provider.key = KeySource::Environment(names);
            }
            "models" => (),
            other => {
                let hint = near::hint(other, FIELDS.into_iter());
                return Err(refused(
                    &id,
                    &format!("has a field `{other}` that is not known{hint}"),
                ));
            }
        }
    }
    Ok(())
}

/// A model of the text, over the one of that id, if there is one.
fn model(models: &Models, provider: &str, value: &Value) -> Result<Model> {
    let Some((fields, id)) = value.as_object().and_then(|it| Some((it, it.get("id")?.as_str()?)))
    else {
        return Err(refused(provider, "has a model that is no object with an `id`"));
    };
    let known = models.entry(provider).ok().and_then(|entry| entry.find(id));
    let wrong = |error: serde_json::Error| {
        refused(provider, &format!("has a model `{id}` that cannot be read: {error}"))
    };
    let mut all = match &known {
        Some(model) => match serde_json::to_value(&**model).map_err(wrong)? {
            Value::Object(all) => all,
            _ => Map::new(),
        },
        None => Map::new(),
    };
    all.extend(fields.clone());
    serde_json::from_value(Value::Object(all)).map_err(wrong)
}

fn refused(provider: &str, why: &str) -> Error {
    let what = if provider.is_empty() {
        "the catalogue".to_owned()
    } else {
        format!("the provider `{provider}` of the catalogue")
    };
    Error::new(ErrorKind::Configuration, format!("{what} {why}"))
}
