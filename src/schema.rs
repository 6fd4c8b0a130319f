//! JSON Schemas of tools: building, checking and mending arguments, and the strict form some vendors want.
//!
//! A Rust type gives its schema by [`for_type`]. A tool that is only known at run time builds one:
//!
//! ```
//! use serde_json::{Value, json};
//! use steerage::schema;
//!
//! let search = schema::object()
//!     .required("query", schema::string().min_length(1).description("What to look for"))
//!     .optional("mode", schema::string_enum(["exact", "fuzzy"]))
//!     .optional("limit", schema::integer().minimum(1).maximum(50))
//!     .optional("since", schema::nullable(schema::string().format("date")))
//!     .optional("tags", schema::array(schema::string()))
//!     .optional("near", schema::tuple([schema::number(), schema::number()]))
//!     .optional("sort", schema::union([schema::lit("none"), schema::one_of(["up", "down"])]))
//!     .optional("weights", schema::map(schema::number()))
//!     .description("What to search, and how");
//! let json = Value::from(search);
//! assert_eq!(json["properties"]["limit"], json!({"type": "integer", "minimum": 1, "maximum": 50}));
//! assert_eq!(json["required"], json!(["query"]));
//! assert_eq!(json["additionalProperties"], false);
//! ```

mod builder;
#[cfg(feature = "validate")]
mod check;
#[cfg(not(feature = "validate"))]
#[path = "schema/light.rs"]
mod check;
mod coerce;
mod convert;
mod declared;
mod derive;
mod explain;
mod kind;
mod parts;
mod plan;
mod prepare;
mod reference;
mod report;
mod strict;
mod survey;
mod unevaluated;
mod walk;

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::{Map, Value};

pub(crate) use crate::schema::declared::declared;
pub use crate::schema::{
    builder::{
        Builder, array, boolean, integer, lit, map, null, nullable, number, object, one_of, string,
        string_enum, tuple, union, unknown,
    },
    derive::for_type,
    strict::strict,
};
use crate::{
    error::{Error, ErrorKind, Result},
    schema::{
        check::Checker,
        coerce::{Coercion, Size},
        explain::{Explanation, Violations},
        kind::Kinds,
        plan::{Plan, ROOT},
        walk::Walk,
    },
};

/// How deeply arguments may nest.
const MAX_DEPTH: usize = 128;
/// How many schemas may be at work inside each other: the levels of a value times the longest chain at each.
const MAX_NESTED: usize = 1024;
/// How often a value is converted again, for schemas whose parts wait for each other.
const MAX_ROUNDS: usize = 3;
/// How many steps conversion and explanation may take, and how many more for each part of a value.
const STEPS: usize = 50_000;
const STEPS_PER_VALUE: usize = 16;

/// A JSON Schema for the arguments of a tool, prepared once and cheap to clone.
///
/// Any JSON Schema is taken, also the loose ones of the real world: drafts 4 to 2020-12, keywords with a value of the
/// wrong type (ignored), references that lead nowhere (nothing matches there). Nothing is ever fetched: references
/// lead to places of the schema itself, to the documents of [`SchemaOptions`] and to the meta-schemas of the drafts. The
/// model gets the schema as given, unless vendors would refuse a tool with it: see [`Tool::declaration`](crate::Tool::declaration).
///
/// ```
/// use serde_json::json;
/// use steerage::schema::Schema;
///
/// let schema = Schema::new(json!({
///     "type": "object",
///     "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
///     "required": ["path"],
/// }))?;
/// let arguments = json!({"path": "notes.md", "limit": "10"});
/// let checked = schema.check("read", arguments.as_object().unwrap()).unwrap();
/// assert_eq!(checked["limit"], 10);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Clone)]
pub struct Schema {
    inner: Arc<Inner>,
}

/// How [`Schema::with_options`] takes a schema and checks by it.
///
/// ```
/// use serde_json::json;
/// use steerage::schema::{Schema, SchemaOptions};
///
/// let city = json!({"type": "string", "minLength": 2});
/// let options = SchemaOptions {
///     coercion: false,
///     is_for_arguments: false,
///     documents: [("https://example.org/city".to_owned(), city)].into(),
///     ..SchemaOptions::default()
/// };
/// let route = json!({"type": "array", "items": {"$ref": "https://example.org/city"}});
/// let route = Schema::with_options(route, &options)?;
/// assert!(route.check_value(&json!(["Oslo", "Bergen"])).is_ok());
/// assert!(route.check_value(&json!(["Oslo", "?"])).is_err());
/// assert!(route.check_value(&json!("Oslo")).is_err());
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaOptions {
    /// Whether `format` is checked, as far as the format is known. Default: true.
    pub formats: bool,
    /// Whether values that do not match are mended where they lose nothing by it. Default: true.
    pub coercion: bool,
    /// Whether the schema is for the arguments of a tool: one that admits no object is then an error. Default: true.
    pub is_for_arguments: bool,
    /// Documents that references may lead to, by their URI. Default: none.
    pub documents: BTreeMap<String, Value>,
}

impl Default for SchemaOptions {
    fn default() -> SchemaOptions {
        let documents = BTreeMap::new();
        SchemaOptions { formats: true, coercion: true, is_for_arguments: true, documents }
    }
}

struct Inner {
    json: Value,
    plan: Plan,
    checker: Checker,
    max_depth: usize,
    coerces: bool,
}

impl Schema {
    /// Prepares a schema.
    ///
    /// Fails with [`ErrorKind::Configuration`] if it cannot be used: something that is no schema where one must be,
    /// a root that admits no object, or a size beyond reason. The text says where and why.
    pub fn new(json: impl Into<Value>) -> Result<Schema> {
        Self::with_options(json, &SchemaOptions::default())
    }

    /// The same with options.
    pub fn with_options(json: impl Into<Value>, options: &SchemaOptions) -> Result<Schema> {
        let json = json.into();
        let prepared = Self::prepare(&json, options).and_then(|(prepared, plan)| {
            let checker = Checker::new(&prepared, &plan)?;
            Ok((plan, checker))
        });
        let (plan, checker) = prepared.map_err(|reason| unusable(&reason))?;
        let max_depth = MAX_DEPTH.min(MAX_NESTED / plan.chain.max(1));
        let coerces = options.coercion;
        Ok(Schema { inner: Arc::new(Inner { json, plan, checker, max_depth, coerces }) })
    }

    /// Looks only for what a schema that was made from a type may have against it, which costs next to nothing.
    pub(crate) fn look_over(json: &Value) -> Result<()> {
        let options = SchemaOptions::default();
        Self::prepare(json, &options).map(drop).map_err(|reason| unusable(&reason))
    }

    fn prepare(json: &Value, options: &SchemaOptions) -> Result<(Value, Plan), String> {
        let prepared = prepare::prepare(json, options)?;
        let plan = Plan::new(&prepared)?;
        let admits_objects = plan.nodes[ROOT].kinds.contains(Kinds::OBJECT);
        if options.is_for_arguments && !admits_objects && prepared != Value::Bool(false) {
            return Err("#: arguments are an object, but no object matches".to_owned());
        }
        Ok((prepared, plan))
    }

    /// The schema as it was given.
    pub fn json(&self) -> &Value {
        &self.inner.json
    }

    /// Checks the arguments of a call and returns them, mended where they lose nothing by it.
    ///
    /// Arguments that match are returned as they are. Others are converted where it is clear what was meant: `"10"`
    /// for a number, `"true"` for a boolean, 5 for a string, a lone value or JSON text for an array, JSON text for
    /// an object, null for an optional field that admits no null (left out). Whole numbers are written without a
    /// fraction where an integer is wanted.
    ///
    /// The error is a text for the model: what is wrong at which place, and the arguments.
    pub fn check(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let max_depth = self.inner.max_depth;
        let Some(size) = Size::of_object(arguments, max_depth) else {
            return Err(report::too_deep(tool, max_depth));
        };
        let value = Value::Object(arguments.clone());
        let is_valid = self.accepts(&value, size);
        match self.mended(value, size, is_valid) {
            Ok(Value::Object(mended)) => Ok(mended),
            Ok(_) | Err(_) if is_valid => Ok(arguments.clone()),
            Ok(value) | Err(value) => {
                Err(report::refusal(tool, &self.explanation(&value), arguments))
            }
        }
    }

    /// Checks any value in the same way and returns it, mended where it loses nothing by it.
    ///
    /// The error is a text for a model: what is wrong at which place, and the value.
    pub fn check_value(&self, value: &Value) -> Result<Value, String> {
        let max_depth = self.inner.max_depth;
        let Some(size) = Size::of(value, max_depth) else {
            return Err(report::too_deep_a_value(max_depth));
        };
        let is_valid = self.accepts(value, size);
        match self.mended(value.clone(), size, is_valid) {
            Ok(mended) => Ok(mended),
            Err(_) if is_valid => Ok(value.clone()),
            Err(mended) => Err(report::misfit(&self.explanation(&mended), value)),
        }
    }

    fn explanation(&self, value: &Value) -> Violations {
        let size = Size::of(value, usize::MAX);
        let walk = self.walk(size.unwrap_or(Size { count: 1, has_fractions: false })).with_memory();
        Explanation::of(&walk, ROOT, value)
    }

    /// Converts until the value is valid or stays the same, which is then the error.
    fn mended(&self, mut value: Value, size: Size, is_valid: bool) -> Result<Value, Value> {
        if is_valid && !(self.inner.coerces && size.has_fractions) {
            return Ok(value);
        }
        if !self.inner.coerces {
            return Err(value);
        }
        let walk = self.walk(size);
        let mut coercion = Coercion::new(&walk, self.inner.max_depth, size.has_fractions);
        let mut valid = None;
        for _ in 0..MAX_ROUNDS {
            let before = value.clone();
            coercion.value(ROOT, &mut value);
            let is_final = before == value;
            // What was converted may have become a number to be written otherwise.
            let has_fractions = Size::of(&value, usize::MAX).is_none_or(|it| it.has_fractions);
            if self.accepts(&value, size) {
                if is_final || !has_fractions {
                    return Ok(value);
                }
                valid = Some(value.clone());
            } else if valid.is_some() {
                break;
            }
            if is_final {
                break;
            }
            coercion = coercion.again(has_fractions);
        }
        valid.ok_or(value)
    }

    fn accepts(&self, value: &Value, size: Size) -> bool {
        self.inner.checker.accepts(value, || self.walk(size).with_memory().accepts(ROOT, value))
    }

    fn walk(&self, size: Size) -> Walk<'_> {
        let steps = STEPS.saturating_add(size.count.saturating_mul(STEPS_PER_VALUE));
        Walk::new(&self.inner.plan, &self.inner.checker, steps)
    }
}

fn unusable(reason: &str) -> Error {
    Error::new(ErrorKind::Configuration, format!("the schema cannot be used: {reason}"))
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.inner.json).finish()
    }
}
