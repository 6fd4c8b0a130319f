//! Full validation: the last word on a value, and the keywords that one node asserts by itself.

use std::{fmt, sync::OnceLock};

use jsonschema::{
    Draft, PatternCache, PatternOptions, ValidationError, ValidationOptions, Validator,
    error::ValidationErrorKind,
};
use referencing::meta;
use serde_json::{Map, Value};

use crate::schema::{
    explain::{Fault, count},
    plan::{NodeId, Plan},
};

/// How often a pattern may start over on one text; the ones that need more are hostile or hopeless.
const BACKTRACK_LIMIT: usize = 100_000;
const PATTERN_SIZE: usize = 1 << 20;
/// How many visits of schemas one value may cost the validator, which remembers only those on cycles.
const MAX_WAYS: usize = 50_000;

/// The validators of one schema.
pub(super) struct Checker {
    root: Validator,
    is_costly: bool,
    /// What each node asserts by itself, built when a value is first explained or converted.
    own: Vec<OnceLock<Option<Validator>>>,
    patterns: Vec<Option<Validator>>,
    options: ValidationOptions<'static>,
}

impl Checker {
    pub(super) fn new(prepared: &Value, plan: &Plan) -> Result<Checker, String> {
        let options = options().with_pattern_cache(PatternCache::new());
        let root = options.build(prepared).map_err(|error| describe(&error))?;
        let own = plan.nodes.iter().map(|_| OnceLock::new()).collect();
        let pattern = |source: &String| build_pattern(&options, source).ok();
        let patterns = plan.patterns.iter().map(pattern).collect();
        Ok(Checker { root, is_costly: plan.ways > MAX_WAYS, own, patterns, options })
    }

    /// The verdict on a whole value; `plan` gives it where the validator could take for ever.
    pub(super) fn accepts(&self, value: &Value, plan: impl FnOnce() -> bool) -> bool {
        if self.is_costly { plan() } else { self.root.is_valid(value) }
    }

    /// Whether `value` keeps the `assertions` of one node.
    pub(super) fn holds(&self, id: NodeId, assertions: &Map<String, Value>, value: &Value) -> bool {
        self.own(id, assertions).is_none_or(|validator| validator.is_valid(value))
    }

    /// What `value` breaks of the `assertions` of one node.
    pub(super) fn faults(
        &self,
        id: NodeId,
        assertions: &Map<String, Value>,
        value: &Value,
    ) -> Vec<Fault> {
        let validator = self.own(id, assertions);
        validator.into_iter().flat_map(|it| it.iter_errors(value)).map(|it| fault(&it)).collect()
    }

    /// Whether a field's name matches one of the `patternProperties`.
    pub(super) fn matches(&self, pattern: usize, name: &str) -> bool {
        let validator = self.patterns.get(pattern).and_then(Option::as_ref);
        validator.is_some_and(|it| it.is_valid(&Value::from(name)))
    }

    fn own(&self, id: NodeId, assertions: &Map<String, Value>) -> Option<&Validator> {
        if assertions.is_empty() {
            return None;
        }
        let build = || self.options.build(&Value::Object(assertions.clone())).ok();
        self.own.get(id)?.get_or_init(build).as_ref()
    }
}

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checker").field("patterns", &self.patterns.len()).finish_non_exhaustive()
    }
}

/// Whether a pattern can be used; one that cannot is told to the log.
pub(super) fn is_usable_pattern(pattern: &str, at: &str) -> bool {
    let error = build_pattern(&options(), pattern).err();
    if let Some(error) = &error {
        tracing::warn!(at, error, "the pattern of a schema is ignored");
    }
    error.is_none()
}

/// A meta-schema or one of its vocabularies.
pub(super) fn meta_schema(uri: &str) -> Option<&'static Value> {
    let schema = match uri.split_once("://json-schema.org/")?.1 {
        "draft-04/schema" => &meta::DRAFT4,
        "draft-06/schema" => &meta::DRAFT6,
        "draft-07/schema" => &meta::DRAFT7,
        "draft/2019-09/schema" => &meta::DRAFT201909,
        "draft/2019-09/meta/core" => &meta::DRAFT201909_CORE,
        "draft/2019-09/meta/applicator" => &meta::DRAFT201909_APPLICATOR,
        "draft/2019-09/meta/validation" => &meta::DRAFT201909_VALIDATION,
        "draft/2019-09/meta/meta-data" => &meta::DRAFT201909_META_DATA,
        "draft/2019-09/meta/format" => &meta::DRAFT201909_FORMAT,
        "draft/2019-09/meta/content" => &meta::DRAFT201909_CONTENT,
        "draft/2020-12/schema" => &meta::DRAFT202012,
        "draft/2020-12/meta/core" => &meta::DRAFT202012_CORE,
        "draft/2020-12/meta/applicator" => &meta::DRAFT202012_APPLICATOR,
        "draft/2020-12/meta/unevaluated" => &meta::DRAFT202012_UNEVALUATED,
        "draft/2020-12/meta/validation" => &meta::DRAFT202012_VALIDATION,
        "draft/2020-12/meta/meta-data" => &meta::DRAFT202012_META_DATA,
        "draft/2020-12/meta/format-annotation" => &meta::DRAFT202012_FORMAT_ANNOTATION,
        "draft/2020-12/meta/format-assertion" => &meta::DRAFT202012_FORMAT_ASSERTION,
        "draft/2020-12/meta/content" => &meta::DRAFT202012_CONTENT,
        _ => return None,
    };
    Some(schema)
}

fn build_pattern(options: &ValidationOptions<'_>, pattern: &str) -> Result<Validator, String> {
    let mut schema = Map::new();
    schema.insert("pattern".to_owned(), Value::from(pattern));
    options.build(&Value::Object(schema)).map_err(|error| error.to_string())
}

fn options() -> ValidationOptions<'static> {
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(BACKTRACK_LIMIT)
        .size_limit(PATTERN_SIZE)
        .dfa_size_limit(PATTERN_SIZE);
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .should_validate_formats(true)
        .with_pattern_options(patterns)
        .offline()
}

fn describe(error: &ValidationError<'_>) -> String {
    format!("#{}: {error}", error.instance_path())
}

fn fault(error: &ValidationError<'_>) -> Fault {
    let field = match error.kind() {
        ValidationErrorKind::Required { property } => property.as_str().map(str::to_owned),
        _ => None,
    };
    Fault { field, text: text(error.kind()) }
}

fn text(kind: &ValidationErrorKind) -> String {
    use ValidationErrorKind as Kind;
    match kind {
        Kind::MinLength { limit } => format!("expected at least {}", count(*limit, "character")),
        Kind::MaxLength { limit } => format!("expected at most {}", count(*limit, "character")),
        Kind::MinItems { limit } => format!("expected at least {}", count(*limit, "item")),
        Kind::MaxItems { limit } => format!("expected at most {}", count(*limit, "item")),
        Kind::MinProperties { limit } => format!("expected at least {}", count(*limit, "field")),
        Kind::MaxProperties { limit } => format!("expected at most {}", count(*limit, "field")),
        Kind::Minimum { limit } => format!("expected a number >= {limit}"),
        Kind::Maximum { limit } => format!("expected a number <= {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("expected a number > {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("expected a number < {limit}"),
        Kind::MultipleOf { multiple_of } => format!("expected a multiple of {multiple_of}"),
        Kind::UniqueItems => "expected items that all differ".to_owned(),
        Kind::Pattern { pattern } => format!("expected text that matches {pattern}"),
        Kind::Format { format } => format!("expected text in the format {format}"),
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            "too hard to match with the pattern of the schema".to_owned()
        }
        Kind::Required { .. } => "missing, but required here".to_owned(),
        other => format!("does not match the keyword {}", other.keyword()),
    }
}
