//! Answers as data: the model answers by calling a tool, whose arguments are the answer.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::{
    agent::{Agent, Prompt, RunEnd, RunOutcome, RunTerms},
    agent_loop::{LoopConfig, LoopContext, Turn, TurnDecision},
    error::{Error, ErrorKind},
    message::{ConstrainedSampling, Message, SamplingConstraint, Strictness},
    model::ThinkingLevel,
    schema,
    stream::ToolChoice,
    thread::lock::Mutex,
    tool::{Tool, ToolContext, ToolError, ToolResult},
};

/// The field of an answer that is no object itself.
const FIELD: &str = "answer";

/// How [`Agent::ask_with`] asks.
#[derive(Debug, Clone)]
pub struct AskOptions {
    /// How often the model may try again when its answer does not fit or is not given. Default: 2.
    pub repairs: u32,
}

impl Default for AskOptions {
    fn default() -> AskOptions {
        AskOptions { repairs: 2 }
    }
}

/// Answers as data.
impl Agent {
    /// Asks for an answer of the type `T`, and waits for it.
    ///
    /// The model gets one more tool for this question, called `answer`, that takes a `T` and ends the run; it may call the
    /// agent's own tools before. Where the vendor has a strict mode that knows `T`'s schema, the model is held to it;
    /// elsewhere what it gives is mended and checked as all arguments are, and the model is told what does not fit.
    /// Question and answer stand in the transcript. Doc comments on `T` and its fields tell the model what is meant.
    ///
    /// Fails as [`prompt`](Agent::prompt) and [`Run::wait`](crate::Run::wait) do, with [`ErrorKind::Limit`] if a budget of the
    /// run was used up first, and with [`ErrorKind::Protocol`] if the model gave no answer that fits in the tries it has:
    /// ask again, simplify `T`, or take another model. [`abort`](Agent::abort) ends the wait from another thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    /// use serde_json::json;
    /// use steerage::{Agent, AgentOptions, testing::{Answer, Scripted}};
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct City {
    ///     name: String,
    ///     /// In the city itself, without suburbs.
    ///     inhabitants: u64,
    /// }
    ///
    /// let model = Scripted::new([
    ///     Answer::new().tool_call("answer", json!({"name": "Oslo", "inhabitants": 717_710})),
    /// ]);
    /// let options = AgentOptions { stream: Some(model.clone().into()), ..AgentOptions::default() };
    /// let agent = Agent::new(model.model(), options)?;
    /// let city: City = agent.ask("What is the capital of Norway?")?;
    /// assert_eq!((city.name.as_str(), city.inhabitants), ("Oslo", 717_710));
    /// # Ok::<(), steerage::Error>(())
    /// ```
    pub fn ask<T>(&self, prompt: impl Into<Prompt>) -> Result<T, Error>
    where
        T: DeserializeOwned + JsonSchema + 'static,
    {
        self.ask_with(prompt, &AskOptions::default())
    }

    /// The same with options.
    pub fn ask_with<T>(&self, prompt: impl Into<Prompt>, options: &AskOptions) -> Result<T, Error>
    where
        T: DeserializeOwned + JsonSchema + 'static,
    {
        let state = self.state();
        let is_taken = |name: &str| state.tools.iter().any(|tool| tool.name() == name);
        let (mut name, mut number) = (FIELD.to_owned(), 1);
        while is_taken(&name) {
            number += 1;
            name = format!("{FIELD}_{number}");
        }
        let question = Question::of::<T>(name, options.repairs);
        let mut prompt = prompt.into();
        loop {
            let terms = question.terms();
            let outcome = self.prompt_on(prompt, terms)?.wait()?;
            if let Some(answer) = question.answer.lock().take() {
                return read(answer, question.is_wrapped).map_err(|error| question.failed(&error));
            }
            question.judge(&outcome)?;
            prompt = Prompt::from(format!(
                "You have not called the tool `{}` yet. Call it now with your answer.",
                question.name
            ));
        }
    }
}

/// A question at work: what it wants and what came so far.
struct Question {
    name: String,
    tool: Tool,
    is_wrapped: bool,
    repairs: u32,
    /// Tries that gave nothing that fits.
    failures: Arc<AtomicU32>,
    answer: Arc<Mutex<Option<Value>>>,
}

impl Question {
    fn of<T>(name: String, repairs: u32) -> Question
    where
        T: DeserializeOwned + JsonSchema + 'static,
    {
        let (parameters, is_wrapped) = parameters(schema::for_type::<T>());
        let answer: Arc<Mutex<Option<Value>>> = Arc::default();
        let kept = answer.clone();
        let take = move |arguments: Map<String, Value>,
                         _: &ToolContext|
              -> Result<ToolResult, ToolError> {
            let arguments = Value::Object(arguments);
            drop(read::<T>(arguments.clone(), is_wrapped)?);
            // Of several answers in one message the first counts.
            kept.lock().get_or_insert(arguments);
            Ok(ToolResult::text("The answer was taken.").terminating())
        };
        let description = "Gives the final answer. Call it once, when the answer is complete; text is not an answer.";
        let strict = SamplingConstraint::JsonSchema { strict: Strictness::Prefer };
        let tool = Tool::with_schema(name.clone(), description, parameters, take)
            .constrained_sampling(ConstrainedSampling::On(strict));
        Question { name, tool, is_wrapped, repairs, failures: Arc::default(), answer }
    }

    /// The tool for this run alone, and an end of the run when it was called well or too often in vain.
    fn terms(&self) -> RunTerms {
        let (tool, name, repairs) = (self.tool.clone(), self.name.clone(), self.repairs);
        let (answer, failures) = (self.answer.clone(), self.failures.clone());
        let adjust = move |config: &mut LoopConfig, context: &mut LoopContext| {
            let thinks = config.thinking_level != ThinkingLevel::Off;
            // Vendors refuse a model that thinks a forced call.
            if context.tools.is_empty() && !thinks && config.request.tool_choice.is_none() {
                config.request.tool_choice = Some(ToolChoice::Tool(name.clone()));
            }
            context.tools.push(tool);
            let host = config.hooks.finish_turn.take();
            config.hooks.finish_turn = Some(Arc::new(move |turn: &Turn<'_>, signal| {
                let decision =
                    host.as_ref().map_or(Ok(TurnDecision::Proceed), |it| it(turn, signal))?;
                if answer.lock().is_some() {
                    return Ok(TurnDecision::End);
                }
                if turn.tool_results.iter().any(|result| is_of(result, &name)) {
                    let before = failures.fetch_add(1, Ordering::AcqRel);
                    if before >= repairs {
                        return Ok(TurnDecision::End);
                    }
                }
                Ok(decision)
            }));
        };
        RunTerms { adjust: Some(Box::new(adjust)), ..RunTerms::default() }
    }

    /// Whether the model may try again after a run that gave no answer.
    fn judge(&self, outcome: &RunOutcome) -> Result<(), Error> {
        if matches!(outcome.end, RunEnd::OutOfRequests | RunEnd::OutOfBudget) {
            let message = "a budget of the run was used up before the model gave its answer";
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let spent = self.failures.fetch_add(1, Ordering::AcqRel);
        // A run that was ended after a turn has used up its tries, or the host wants no more.
        if outcome.end == RunEnd::Stopped || spent >= self.repairs {
            let mut results = outcome.messages.iter().rev();
            let why = results.find(|result| is_of(result, &self.name)).map(|result| result.text());
            return Err(self.failed(why.as_deref().unwrap_or("it did not call the tool")));
        }
        Ok(())
    }

    fn failed(&self, why: &str) -> Error {
        let message = format!("the model gave no answer that fits, by tool `{}`: {why}", self.name);
        Error::new(ErrorKind::Protocol, message)
    }
}

fn is_of(result: &Message, name: &str) -> bool {
    result.as_tool_result().is_some_and(|result| result.tool_name == name)
}

/// The parameters that take an answer of this schema, and whether it stands in a field of its own there.
fn parameters(mut schema: Value) -> (Value, bool) {
    if schema.get("type").and_then(Value::as_str) == Some("object") {
        return (schema, false);
    }
    // References lead to the root, which is another one now.
    let definitions = schema.as_object_mut().and_then(|fields| fields.shift_remove("$defs"));
    let mut definitions = definitions.unwrap_or_else(|| json!({}));
    let is_recursive = lead_elsewhere(&mut schema) | lead_elsewhere(&mut definitions);
    if is_recursive {
        definitions[FIELD] = schema;
        schema = json!({"$ref": format!("#/$defs/{FIELD}")});
    }
    let mut wrapped = json!({
        "type": "object",
        "properties": {FIELD: schema},
        "required": [FIELD],
        "additionalProperties": false,
    });
    if definitions.as_object().is_some_and(|it| !it.is_empty()) {
        wrapped["$defs"] = definitions;
    }
    (wrapped, true)
}

/// Makes references to the root lead to the definition of the answer; tells whether there are any.
fn lead_elsewhere(schema: &mut Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let mut found = false;
            for (key, value) in fields {
                if key == "$ref" && *value == "#" {
                    *value = format!("#/$defs/{FIELD}").into();
                    found = true;
                }
                found |= lead_elsewhere(value);
            }
            found
        }
        Value::Array(items) => {
            items.iter_mut().fold(false, |found, item| lead_elsewhere(item) | found)
        }
        _ => false,
    }
}

fn read<T: DeserializeOwned>(mut answer: Value, is_wrapped: bool) -> Result<T, String> {
    if is_wrapped {
        answer = answer.get_mut(FIELD).map(Value::take).unwrap_or_default();
    }
    serde_json::from_value(answer).map_err(|error| format!("the answer does not fit: {error}"))
}
