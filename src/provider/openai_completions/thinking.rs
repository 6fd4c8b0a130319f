//! How a request says how hard to think, in the words of each server.

use serde_json::{Map, Value, json};

use crate::{
    model::{Model, ThinkingBudgets, ThinkingLevel},
    provider::openai_completions::compat::{Compat, ThinkingFormat},
};

/// Keeps so many tokens for the answer when thinking has a budget.
const ANSWER_RESERVE: u64 = 1024;

/// How hard a request thinks.
#[derive(Debug)]
pub(super) struct Thinking<'a> {
    model: &'a Model,
    /// The level; `Off` for not at all.
    pub(super) level: ThinkingLevel,
    /// Tokens to think with, where a server is told.
    budget: Option<u64>,
}

impl<'a> Thinking<'a> {
    /// `output_cap` is what the whole answer may have, thinking included.
    pub(super) fn new(
        model: &'a Model,
        level: ThinkingLevel,
        budgets: &ThinkingBudgets,
        output_cap: Option<u64>,
    ) -> Thinking<'a> {
        let most = output_cap.unwrap_or(model.max_tokens);
        let budget = budgets.tokens(level).map(|tokens| match most {
            0 => tokens,
            most => tokens.min(most.saturating_sub(ANSWER_RESERVE)),
        });
        Thinking { model, level, budget: budget.filter(|tokens| *tokens > 0) }
    }

    /// Adds the fields that the server wants to see.
    pub(super) fn write(&self, body: &mut Map<String, Value>, compat: &Compat) {
        if !self.model.reasoning {
            return;
        }
        self.write_format(body, compat);
        if let (Some(field), Some(budget)) = (&compat.thinking_budget_field, self.budget) {
            set(body, field, budget.into());
        }
    }

    fn write_format(&self, body: &mut Map<String, Value>, compat: &Compat) {
        match compat.thinking_format {
            ThinkingFormat::OpenAi => self.write_effort(body, compat),
            ThinkingFormat::OpenRouter => {
                if let Some(effort) = self.effort_or_none() {
                    set(body, "reasoning", json!({"effort": effort}));
                }
            }
            ThinkingFormat::DeepSeek => {
                if self.is_on() {
                    set(body, "thinking", json!({"type": "enabled"}));
                    self.write_effort(body, compat);
                } else if !self.off_is_null() {
                    set(body, "thinking", json!({"type": "disabled"}));
                }
            }
            ThinkingFormat::Zai => {
                if self.is_on() {
                    set(body, "thinking", json!({"type": "enabled", "clear_thinking": false}));
                    self.write_effort(body, compat);
                } else {
                    set(body, "thinking", json!({"type": "disabled"}));
                }
            }
            ThinkingFormat::Qwen => {
                set(body, "enable_thinking", self.is_on().into());
                self.write_effort_if_on(body, compat);
            }
            ThinkingFormat::QwenChatTemplate => {
                let arguments = json!({"enable_thinking": self.is_on(), "preserve_thinking": true});
                set(body, "chat_template_kwargs", arguments);
            }
            ThinkingFormat::ChatTemplate => {
                self.write_template(body, "chat_template_kwargs", &compat.chat_template_kwargs);
            }
            ThinkingFormat::Baseten => {
                self.write_template(body, "chat_template_args", &compat.chat_template_args);
                self.write_effort(body, compat);
            }
            ThinkingFormat::Together => {
                set(body, "reasoning", json!({"enabled": self.is_on()}));
                self.write_effort_if_on(body, compat);
            }
            ThinkingFormat::StringThinking => {
                if let Some(effort) = self.effort_or_none() {
                    set(body, "thinking", effort.into());
                }
            }
            ThinkingFormat::AntLing => {
                if let Some(effort) =
                    self.model.mapped_thinking(self.level).filter(|_| self.is_on())
                {
                    set(body, "reasoning", json!({"effort": effort}));
                }
            }
        }
    }

    fn is_on(&self) -> bool {
        self.level != ThinkingLevel::Off
    }

    /// The vendor's word for the level, or the level's own name.
    fn effort(&self) -> &str {
        self.model.mapped_thinking(self.level).unwrap_or(self.level.as_str())
    }

    /// The vendor's word for not thinking, where the model maps it.
    fn off(&self) -> Option<&str> {
        self.model.mapped_thinking(ThinkingLevel::Off)
    }

    fn off_is_null(&self) -> bool {
        let map = self.model.thinking_level_map.as_ref();
        map.and_then(|map| map.get("off")).is_some_and(Value::is_null)
    }

    /// The effort, `none` or its translation when off, nothing for a model that cannot be told not to think.
    fn effort_or_none(&self) -> Option<&str> {
        if self.is_on() {
            return Some(self.effort());
        }
        (!self.off_is_null()).then(|| self.off().unwrap_or("none"))
    }

    fn write_effort(&self, body: &mut Map<String, Value>, compat: &Compat) {
        let effort = if self.is_on() { Some(self.effort()) } else { self.off() };
        if let Some(effort) = effort.filter(|_| compat.supports_reasoning_effort) {
            set(body, "reasoning_effort", effort.into());
        }
    }

    fn write_effort_if_on(&self, body: &mut Map<String, Value>, compat: &Compat) {
        if self.is_on() {
            self.write_effort(body, compat);
        }
    }

    /// Fills in the variables of a template's arguments.
    fn write_template(
        &self,
        body: &mut Map<String, Value>,
        field: &str,
        template: &Map<String, Value>,
    ) {
        let filled: Map<String, Value> = template
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), self.fill(value)?)))
            .collect();
        if !filled.is_empty() {
            set(body, field, Value::Object(filled));
        }
    }

    fn fill(&self, value: &Value) -> Option<Value> {
        let Some(variable) = value.get("$var").and_then(Value::as_str) else {
            return Some(value.clone());
        };
        let omits = value.get("omitWhenOff").and_then(Value::as_bool).unwrap_or(false);
        if omits && !self.is_on() {
            return None;
        }
        match variable {
            "thinking.enabled" => Some(self.is_on().into()),
            "thinking.effort" if self.is_on() => Some(self.effort().into()),
            "thinking.effort" => self.off().map(Value::from),
            "thinking.budget" => self.budget.map(Value::from),
            _ => None,
        }
    }
}

fn set(body: &mut Map<String, Value>, name: &str, value: Value) {
    body.insert(name.to_owned(), value);
}
