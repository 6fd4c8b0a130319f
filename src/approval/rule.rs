//! Rules: which calls are allowed, denied or asked about.

use std::{fmt, sync::Arc};

use serde_json::Value;

use crate::{agent_loop::BeforeToolCall, tool::ToolHints};

/// What becomes of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// It does not run.
    Deny,
    /// The host is asked.
    #[default]
    Ask,
}

type Test = Arc<dyn Fn(&BeforeToolCall<'_>) -> bool + Send + Sync>;

/// A rule about calls of tools whose name fits, where `*` stands for any part of it, and that pass all tests of the rule.
///
/// The tests run on the thread of the hook; one that panics refuses the call.
///
/// # Examples
///
/// ```
/// use steerage::approval::Rule;
///
/// let rules = [
///     Rule::deny("write_file").argument("path", |path| path.as_str().is_some_and(|it| it.ends_with(".lock"))),
///     Rule::allow("write_file"),
///     Rule::ask("mcp__*"),
/// ];
/// # assert_eq!(rules.len(), 3);
/// ```
#[derive(Clone)]
pub struct Rule {
    tool: String,
    verdict: Verdict,
    reason: Option<String>,
    tests: Vec<Test>,
}

impl Rule {
    /// Calls of the tool run.
    pub fn allow(tool: impl Into<String>) -> Rule {
        Rule::new(tool, Verdict::Allow)
    }

    /// Calls of the tool do not run.
    pub fn deny(tool: impl Into<String>) -> Rule {
        Rule::new(tool, Verdict::Deny)
    }

    /// The host is asked about calls of the tool.
    pub fn ask(tool: impl Into<String>) -> Rule {
        Rule::new(tool, Verdict::Ask)
    }

    /// Makes a rule of a verdict.
    pub fn new(tool: impl Into<String>, verdict: Verdict) -> Rule {
        Rule { tool: tool.into(), verdict, reason: None, tests: Vec::new() }
    }

    /// Fits only calls that have this argument and whose value passes the test.
    #[must_use]
    pub fn argument(
        self,
        name: impl Into<String>,
        test: impl Fn(&Value) -> bool + Send + Sync + 'static,
    ) -> Rule {
        let name = name.into();
        self.when(move |call| call.arguments.get(&name).is_some_and(&test))
    }

    /// Fits only calls of tools whose hints pass the test. Those of a server that is not trusted may be wrong on purpose.
    #[must_use]
    pub fn hints(self, test: impl Fn(ToolHints) -> bool + Send + Sync + 'static) -> Rule {
        self.when(move |call| test(call.tool.said_hints()))
    }

    /// Fits only calls that pass the test.
    #[must_use]
    pub fn when(
        mut self,
        test: impl Fn(&BeforeToolCall<'_>) -> bool + Send + Sync + 'static,
    ) -> Rule {
        self.tests.push(Arc::new(test));
        self
    }

    /// What the model is told of a call that the rule denies. Default: that the rules do not allow it.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Rule {
        self.reason = Some(reason.into());
        self
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    pub(super) fn reason_text(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub(super) fn fits(&self, call: &BeforeToolCall<'_>) -> bool {
        matches(&self.tool, &call.call.name) && self.tests.iter().all(|test| test(call))
    }
}

/// Whether a name fits a pattern in which `*` stands for any part, an empty one too.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        // The first place leaves the most for the parts behind it.
        let Some(place) = name.find(part) else { return false };
        name = &name[place + part.len()..];
    }
    name.ends_with(tail)
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("tool", &self.tool)
            .field("verdict", &self.verdict)
            .field("tests", &self.tests.len())
            .finish_non_exhaustive()
    }
}
