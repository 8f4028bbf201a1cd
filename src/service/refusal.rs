//! How a service's clients want to be told no.

use std::sync::Arc;

use serde::Serialize;

use super::TextTemplate;

/// A refusal's body in one dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    pub(super) media: Arc<str>,
    pub(super) template: TextTemplate,
}

/// What a refusal template may read.
#[derive(Debug, Clone, Serialize)]
pub struct RefusalContext<'a> {
    /// The sentence: what was refused and why, what would be allowed.
    pub reason: &'a str,
    /// The reason code: `policy_denied`.
    pub code: &'a str,
    /// The status that is sent with it.
    pub status: u16,
    /// `X-Kleis-Request-Id`.
    pub request_id: &'a str,
    /// The service's name.
    pub service: &'a str,
}

/// The variables of a refusal template.
pub const REFUSAL_VARIABLES: &[&str] = &["reason", "code", "status", "request_id", "service"];

impl Dialect {
    /// The `Content-Type`, verbatim: git prints only what is exactly `text/plain`.
    pub fn media(&self) -> &Arc<str> {
        &self.media
    }

    /// The body. `None` if the template fails on these values: the proxy's own text is sent then.
    pub fn render(&self, context: &RefusalContext<'_>) -> Option<String> {
        self.template.render(context).ok()
    }
}
