//! What servers say of their models, in the form of each vendor.

use serde_json::{Map, Value};

use crate::{
    model::{Modality, Model},
    usage::Prices,
};

/// How a server lists its models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listing {
    /// As OpenAI does, at `/models` below the base URL, or at `/v1/models` if that has no path. What Groq, Mistral, Together,
    /// vLLM and others say beyond ids is understood too.
    #[default]
    OpenAi,
    /// As OpenRouter does: OpenAI's form with prices and limits. Needs no key.
    OpenRouter,
    /// As Ollama does: `/api/tags`, and `/api/show` for each model.
    Ollama,
    /// As llama.cpp's server does: OpenAI's form, and `/props` for the context window.
    LlamaCpp,
    /// As Anthropic does, at `/v1/models` below the base URL.
    Anthropic,
    /// As Gemini's API does.
    Gemini,
    /// Not at all.
    Unlisted,
}

/// What a server says of a model; what is `None` it does not say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Listed {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) context_window: Option<u64>,
    pub(super) max_tokens: Option<u64>,
    pub(super) takes_images: Option<bool>,
    pub(super) reasoning: Option<bool>,
    pub(super) cost: Option<Prices>,
}

impl Listed {
    /// Lays what the server says over what is known.
    pub(super) fn lay_over(&self, model: &mut Model) {
        if let Some(name) = &self.name {
            model.name.clone_from(name);
        }
        if let Some(window) = self.context_window {
            model.context_window = window;
        }
        if let Some(most) = self.max_tokens {
            model.max_tokens = most;
        }
        if let Some(images) = self.takes_images {
            model.input = vec![Modality::Text];
            model.input.extend(images.then_some(Modality::Image));
        }
        if let Some(reasoning) = self.reasoning {
            model.reasoning = reasoning;
        }
        if let Some(cost) = &self.cost {
            // What the server does not price as such stays.
            let tiers = std::mem::take(&mut model.cost.tiers);
            model.cost = Prices { tiers, ..cost.clone() };
        }
    }
}

/// The models of a page, whichever of the forms it has. Those that cannot chat are left out.
pub(super) fn read(listing: Listing, page: &Value) -> Vec<Listed> {
    let list = match page {
        Value::Array(list) => list,
        page => match page.get("data").or_else(|| page.get("models")) {
            Some(Value::Array(list)) => list,
            _ => return Vec::new(),
        },
    };
    let one = |model: &Value| {
        let fields = Fields(model.as_object()?);
        match listing {
            Listing::Gemini => fields.gemini(),
            Listing::Anthropic => fields.anthropic(),
            Listing::OpenRouter => fields.openrouter(),
            Listing::Ollama => fields.ollama(),
            Listing::OpenAi | Listing::LlamaCpp | Listing::Unlisted => fields.openai(),
        }
    };
    list.iter().filter_map(one).collect()
}

/// Where the next page begins, if there is one: the query that asks for it.
pub(super) fn next_page(listing: Listing, page: &Value) -> Option<(&'static str, &str)> {
    match listing {
        Listing::Anthropic => {
            let more = page.get("has_more")?.as_bool()?;
            Some(("after_id", page.get("last_id")?.as_str()?)).filter(|_| more)
        }
        Listing::Gemini => {
            let token = page.get("nextPageToken")?.as_str()?;
            Some(("pageToken", token)).filter(|_| !token.is_empty())
        }
        _ => None,
    }
}

/// Lays the answer of Ollama's `/api/show` over a model; tells whether the model can chat.
pub(super) fn show(model: &mut Listed, shown: &Value) -> bool {
    let info = shown.get("model_info").and_then(Value::as_object);
    let length = info.into_iter().flatten().find(|(name, _)| name.ends_with(".context_length"));
    // What the model was made with goes before what it could do.
    let set = shown.get("parameters").and_then(Value::as_str).and_then(|text| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix("num_ctx "))?;
        line.trim().parse().ok()
    });
    model.context_window = set.or_else(|| number(length?.1));
    let Some(Value::Array(capabilities)) = shown.get("capabilities") else { return true };
    let can = |what: &str| capabilities.iter().any(|it| it == what);
    model.takes_images = Some(can("vision"));
    model.reasoning = Some(can("thinking"));
    can("completion")
}

/// Lays the answer of llama.cpp's `/props` over the models of the server.
pub(super) fn props(models: &mut [Listed], props: &Value) {
    let window = props.get("default_generation_settings").and_then(|it| number(it.get("n_ctx")?));
    let images = props.get("modalities").and_then(|it| it.get("vision")?.as_bool());
    for model in models {
        model.context_window = window.or(model.context_window);
        model.takes_images = images.or(model.takes_images);
    }
}

struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn openai(&self) -> Option<Listed> {
        let id = self.text("id")?;
        let kind = self.text("type").unwrap_or("chat");
        let cannot_chat = ["embedding", "image", "audio", "transcribe", "moderation", "rerank"];
        if cannot_chat.contains(&kind) {
            return None;
        }
        let within = |field: &str, name: &str| self.0.get(field).and_then(|it| it.get(name));
        let window = ["context_window", "context_length", "max_context_length", "max_model_len"];
        let able = |name: &str| within("capabilities", name).and_then(Value::as_bool);
        if able("completion_chat") == Some(false) {
            return None;
        }
        Some(Listed {
            id: id.to_owned(),
            name: ["display_name", "name"].iter().find_map(|it| self.text(it)).map(str::to_owned),
            context_window: window
                .iter()
                .find_map(|it| self.count(it))
                .or_else(|| within("meta", "n_ctx_train").and_then(number)),
            max_tokens: ["max_completion_tokens", "max_output_tokens"]
                .iter()
                .find_map(|it| self.count(it)),
            takes_images: able("vision"),
            reasoning: able("reasoning"),
            cost: None,
        })
    }

    fn openrouter(&self) -> Option<Listed> {
        let mut model = self.openai()?;
        let top = self.0.get("top_provider");
        model.max_tokens = top.and_then(|it| number(it.get("max_completion_tokens")?));
        if let Some(window) = top.and_then(|it| number(it.get("context_length")?)) {
            model.context_window = Some(window);
        }
        let list = |value: Option<&'a Value>| value.and_then(Value::as_array);
        let architecture = self.0.get("architecture");
        let input = list(architecture.and_then(|it| it.get("input_modalities")));
        model.takes_images = input.map(|it| it.iter().any(|kind| kind == "image"));
        let output = list(architecture.and_then(|it| it.get("output_modalities")));
        if output.is_some_and(|it| !it.iter().any(|kind| kind == "text")) {
            return None;
        }
        let parameters = list(self.0.get("supported_parameters"));
        model.reasoning = parameters.map(|it| it.iter().any(|name| name == "reasoning"));
        model.cost = self.0.get("pricing").and_then(prices);
        Some(model)
    }

    fn ollama(&self) -> Option<Listed> {
        let id = self.text("model").or_else(|| self.text("name"))?.to_owned();
        Some(Listed { id, ..Listed::default() })
    }

    fn anthropic(&self) -> Option<Listed> {
        let able = |name: &str| {
            self.0.get("capabilities").and_then(|it| it.get(name)?.get("supported")?.as_bool())
        };
        Some(Listed {
            id: self.text("id")?.to_owned(),
            name: self.text("display_name").map(str::to_owned),
            context_window: self.count("max_input_tokens"),
            max_tokens: self.count("max_tokens"),
            takes_images: able("image_input"),
            reasoning: able("thinking"),
            cost: None,
        })
    }

    fn gemini(&self) -> Option<Listed> {
        if let Some(Value::Array(methods)) = self.0.get("supportedGenerationMethods")
            && !methods.iter().any(|it| it == "generateContent")
        {
            return None;
        }
        let id = self.text("name")?;
        Some(Listed {
            id: id.strip_prefix("models/").unwrap_or(id).to_owned(),
            name: self.text("displayName").map(str::to_owned),
            context_window: self.count("inputTokenLimit"),
            max_tokens: self.count("outputTokenLimit"),
            reasoning: self.0.get("thinking").and_then(Value::as_bool),
            ..Listed::default()
        })
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name)?.as_str().filter(|it| !it.is_empty())
    }

    fn count(&self, name: &str) -> Option<u64> {
        number(self.0.get(name)?)
    }
}

/// OpenRouter's prices are in dollars for each token, as texts; -1 stands for one that is not known.
fn prices(pricing: &Value) -> Option<Prices> {
    let price = |name: &str| {
        let value = pricing.get(name)?;
        let dollars = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
        // Rounded, since a millionth has no exact form.
        (dollars >= 0.0).then(|| (dollars * 1e12).round() / 1e6)
    };
    Some(Prices {
        input: price("prompt")?,
        output: price("completion")?,
        cache_read: price("input_cache_read").unwrap_or_default(),
        cache_write: price("input_cache_write").unwrap_or_default(),
        tiers: Vec::new(),
    })
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().filter(|it| *it > 0)
}
