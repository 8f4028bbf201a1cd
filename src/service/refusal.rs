//! How a service's clients want to be told no.

use std::sync::Arc;

use serde::Serialize;

use super::load::Claims;
use super::pattern::RoutePattern;
use super::{Service, TextTemplate};
use crate::facts::Path;
use crate::words::Authority;
use crate::words::strict_toml::{Table, Value};

/// A refusal's body in one dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    media: Arc<str>,
    template: TextTemplate,
}

/// The dialects of a service: those for some requests, and the one for the rest.
#[derive(Debug, Clone, Default)]
pub(super) struct Dialects {
    variants: Vec<(RoutePattern, Dialect)>,
    rest: Option<Dialect>,
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

/// What a template is tried with when it is loaded: text that breaks whatever does not escape it.
const AWKWARD: RefusalContext<'static> = RefusalContext {
    reason: "\"quoted\", back\\slash, </script>\nnew line",
    code: "policy_denied",
    status: 403,
    request_id: "0",
    service: "s",
};

impl Dialect {
    /// The `Content-Type`, verbatim: git prints only what is exactly `text/plain`.
    pub fn media(&self) -> &Arc<str> {
        &self.media
    }

    /// The body. `None` if the template fails on these values: the proxy's own text is sent then.
    pub fn render(&self, context: &RefusalContext<'_>) -> Option<String> {
        self.template.render(context).ok()
    }

    fn read(table: &Table<'_>) -> Option<Dialect> {
        let media = table.required("media").and_then(|value| value.parse(media_type));
        let value = table.required("template")?;
        let template = value.parse(|text| TextTemplate::parse(text, REFUSAL_VARIABLES))?;
        let media = media?;
        let tried = match template.render(&AWKWARD) {
            Err(error) => Some(error.to_string()),
            Ok(body) if media.contains("json") && serde_json::from_str::<serde::de::IgnoredAny>(&body).is_err() => {
                Some("it does not make JSON of every text: write `{{ reason | tojson }}` without quotes".to_owned())
            }
            Ok(_) => None,
        };
        if let Some(why) = tried {
            value.complain(format!("`{}`: {why}", value.name()));
            return None;
        }
        Some(Dialect { media, template })
    }
}

impl Dialects {
    /// Reads `[refusal]`, with its `[[refusal.variant]]`s: the first whose `match` fits wins.
    pub(super) fn read(value: &Value<'_>, claims: &Claims<'_>) -> Option<Dialects> {
        let table = value.table(&["media", "template", "variant"])?;
        let mut dialects = Dialects::default();
        for value in table.get("variant").and_then(|value| value.list()).unwrap_or_default() {
            let Some(variant) = value.table(&["match", "media", "template"]) else { continue };
            let pattern = variant.required("match").and_then(|value| claims.pattern(&value));
            if let (Some(pattern), Some(dialect)) = (pattern, Dialect::read(&variant)) {
                dialects.variants.push((pattern, dialect));
            }
        }
        if table.get("media").is_some() || table.get("template").is_some() || dialects.variants.is_empty() {
            dialects.rest = Dialect::read(&table);
        }
        Some(dialects)
    }
}

impl Service {
    /// How this request's client wants to be told no. `path` is `None` where it could not be parsed.
    pub fn refusal(&self, method: &str, authority: &Authority, path: Option<&Path>) -> Option<&Dialect> {
        let fits = |pattern: &RoutePattern| match path {
            Some(path) => pattern.matches(method, authority, path, self.taste),
            None => pattern.is_any_path() && pattern.methods.includes(method) && pattern.host.matches(authority),
        };
        let variant = self.dialects.variants.iter().find(|(pattern, _)| fits(pattern)).map(|(_, dialect)| dialect);
        variant.or(self.dialects.rest.as_ref())
    }
}

fn media_type(text: &str) -> Result<Arc<str>, String> {
    let right = text.contains('/') && text.bytes().all(|b| (0x20..0x7f).contains(&b));
    if right { Ok(text.into()) } else { Err(format!("`{text}` is not a media type, as `application/json`")) }
}
