//! Texts for people and clients: minijinja templates, checked when they are loaded.

use std::sync::{Arc, LazyLock};

use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

/// A template whose syntax and variables were checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextTemplate {
    text: Arc<str>,
}

/// Why a template can't be used, or not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(pub String);

/// Instructions that one rendering may take.
const FUEL: u64 = 50_000;

/// No loader: a template can't include another. What is undefined prints as nothing.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_keep_trailing_newline(true);
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment
});

/// What templates may call.
const FUNCTIONS: [&str; 3] = ["range", "dict", "namespace"];

impl TextTemplate {
    /// Checks syntax, and that only these variables are read.
    pub fn parse(text: &str, variables: &[&str]) -> Result<TextTemplate, TemplateError> {
        // an environment of its own: the shared one borrows what it compiles for ever
        let environment = Environment::new();
        let template = environment.template_from_str(text).map_err(|error| TemplateError(message(&error)))?;
        let mut unknown: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        unknown.retain(|name| !variables.contains(&name.as_str()) && !FUNCTIONS.contains(&name.as_str()));
        unknown.sort();
        if let Some(name) = unknown.first() {
            let known = variables.iter().map(|v| format!("`{v}`")).collect::<Vec<_>>().join(", ");
            return Err(TemplateError(format!("`{name}` is not known in this template: it has {known}")));
        }
        Ok(TextTemplate { text: text.into() })
    }

    /// Renders, with a bound on its work.
    pub fn render(&self, values: impl Serialize) -> Result<String, TemplateError> {
        ENVIRONMENT.render_str(&self.text, values).map_err(|error| TemplateError(message(&error)))
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn message(error: &minijinja::Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("template, line {line}: {what}"),
        None => format!("template: {what}"),
    }
}
