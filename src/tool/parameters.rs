//! The schema of a tool's arguments: how they are checked by it, and what a model is told of it.

use std::sync::OnceLock;

use serde_json::Value;

use crate::{
    error::{Error, ErrorKind},
    message::ToolDeclaration,
    schema::{self, Schema, SchemaOptions},
    tool::Tool,
};

impl Tool {
    /// Sets how its arguments are checked, and what its schema may refer to; they are arguments whatever is set there.
    /// Default: formats are checked and values mended, as [`Schema::check`] does it.
    ///
    /// # Examples
    ///
    /// ```
    /// use serde_json::json;
    /// use steerage::{Tool, schema::SchemaOptions};
    ///
    /// let parameters = json!({"type": "object", "properties": {"count": {"type": "integer"}}});
    /// let strict = SchemaOptions { coercion: false, ..SchemaOptions::default() };
    /// let tool = Tool::with_schema("take", "Takes some", parameters, |_, _| Ok("taken")).schema_options(strict);
    /// # assert_eq!(tool.name(), "take");
    /// ```
    #[must_use]
    pub fn schema_options(self, options: SchemaOptions) -> Tool {
        self.with(|inner| {
            inner.schema_options = SchemaOptions { is_for_arguments: true, ..options };
            inner.schema = OnceLock::new();
            inner.declared = OnceLock::new();
        })
    }

    /// What a model is told of it.
    ///
    /// Vendors refuse a request over one schema they do not take, so a root that is a union, a reference or no object in
    /// so many words is written as one object that asks for no more; references lead to `$defs` and stand alone; arrays that
    /// do not say what they hold may hold anything; and formats of numbers are left out. The arguments are checked by the schema as it was given.
    ///
    /// # Examples
    ///
    /// ```
    /// use serde_json::json;
    /// use steerage::Tool;
    ///
    /// let parameters = json!({"oneOf": [
    ///     {"type": "object", "properties": {"do": {"const": "open"}, "path": {"type": "string"}}, "required": ["do", "path"]},
    ///     {"type": "object", "properties": {"do": {"const": "quit"}}, "required": ["do"]},
    /// ]});
    /// let tool = Tool::with_schema("editor", "Works an editor", parameters, |_, _| Ok("done"));
    /// assert_eq!(tool.declaration().parameters, json!({
    ///     "type": "object",
    ///     "properties": {"do": {"type": "string", "enum": ["open", "quit"]}, "path": {"type": "string"}},
    ///     "required": ["do"],
    /// }));
    /// ```
    pub fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: self.inner.name.clone(),
            description: self.inner.description.clone(),
            parameters: self.declared().clone(),
            constrained_sampling: self.inner.constrained_sampling.clone(),
        }
    }

    /// The parameters in the form that every vendor takes.
    fn declared(&self) -> &Value {
        self.inner.declared.get_or_init(|| {
            schema::declared(&self.inner.parameters, &self.inner.schema_options.documents)
        })
    }

    /// Whether the model has been told just this of it.
    pub(crate) fn is_declared_by(&self, declaration: &ToolDeclaration) -> bool {
        self.inner.name == declaration.name
            && self.inner.description == declaration.description
            && self.inner.constrained_sampling == declaration.constrained_sampling
            && *self.declared() == declaration.parameters
    }

    /// Says what is wrong with the schema of its arguments. One that was made from a type is prepared at the first call:
    /// what checks schemas themselves takes longer to set up than all the rest of an agent.
    pub(crate) fn check_schema(&self) -> Result<(), Error> {
        if self.inner.is_typed && self.inner.schema_options == SchemaOptions::default() {
            Schema::look_over(&self.inner.parameters)
                .map_err(|error| self.no_schema(error.message()))
        } else {
            self.schema().map(drop)
        }
    }

    /// The prepared schema of its arguments, or why there is none.
    pub(crate) fn schema(&self) -> Result<&Schema, Error> {
        let prepared = self.inner.schema.get_or_init(|| {
            let options = &self.inner.schema_options;
            Schema::with_options(self.inner.parameters.clone(), options)
                .map_err(|error| error.to_string())
        });
        prepared.as_ref().map_err(|error| self.no_schema(error))
    }

    fn no_schema(&self, reason: &str) -> Error {
        let message =
            format!("the parameters of tool `{}` are no usable schema: {reason}", self.inner.name);
        Error::new(ErrorKind::Configuration, message)
    }
}
