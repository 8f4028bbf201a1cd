//! `[[decoder]]`: how a body is read.

use std::sync::Arc;

use super::load::Claims;
use super::pattern::{RoutePattern, Taste};
use crate::facts::{Path, RequestView};
use crate::wire::Decoder;
use crate::words::strict_toml::Value;

/// One `[[decoder]]`. The first that applies wins.
#[derive(Debug, Clone)]
pub(super) struct DecoderRule {
    /// Lower-case; empty: any, also none.
    media: Vec<MediaPattern>,
    pub(super) decoder: Decoder,
    pattern: Option<RoutePattern>,
}

/// `application/json`, `application/*`, `application/*+json`, `*/*`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MediaPattern {
    before: Arc<str>,
    behind: Option<Arc<str>>,
}

impl DecoderRule {
    /// Reads a `[[decoder]]`.
    pub(super) fn read(value: &Value<'_>, claims: &Claims<'_>) -> Option<DecoderRule> {
        let table = value.table(&["media", "decoder", "match"])?;
        let decoder = table.required("decoder").and_then(|value| value.parse(Decoder::parse));
        let media = match table.get("media") {
            Some(value) => value.parse_list(MediaPattern::parse),
            None => Some(Vec::new()),
        };
        let pattern = match table.get("match") {
            Some(value) => Some(claims.pattern(&value)?),
            None => None,
        };
        Some(DecoderRule { media: media?, decoder: decoder?, pattern })
    }

    /// Whether it is the one for this request. `media` is the `Content-Type` without parameters.
    pub(super) fn applies(&self, view: &RequestView<'_>, path: &Path, media: &str, taste: Taste) -> bool {
        (self.media.is_empty() || self.media.iter().any(|pattern| pattern.matches(media)))
            && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(view.method, view.authority, path, taste))
    }
}

impl MediaPattern {
    fn parse(text: &str) -> Result<MediaPattern, String> {
        let wrong =
            || format!("`{text}` is not a media type: use `type/subtype`, at most one `*` in each half, no parameters");
        let (kind, subtype) = text.split_once('/').ok_or_else(wrong)?;
        let right = |half: &str| half == "*" || half.split('*').all(|p| p.is_empty() || super::capture::is_token(p));
        if kind.is_empty() || subtype.is_empty() || !right(kind) || !right(subtype) || subtype.matches('*').count() > 1
        {
            return Err(wrong());
        }
        if kind == "*" {
            return if subtype == "*" {
                Ok(MediaPattern { before: "".into(), behind: Some("".into()) })
            } else {
                Err(wrong())
            };
        }
        let lower = text.to_ascii_lowercase();
        Ok(match lower.split_once('*') {
            Some((before, behind)) => MediaPattern { before: before.into(), behind: Some(behind.into()) },
            None => MediaPattern { before: lower.into(), behind: None },
        })
    }

    fn matches(&self, media: &str) -> bool {
        let same = |pattern: &str, part: Option<&str>| part.is_some_and(|part| pattern.eq_ignore_ascii_case(part));
        match &self.behind {
            None => same(&self.before, Some(media)),
            Some(behind) => {
                let end = media.len().checked_sub(behind.len());
                media.len() >= self.before.len() + behind.len()
                    && same(&self.before, media.get(..self.before.len()))
                    && same(behind, end.and_then(|end| media.get(end..)))
            }
        }
    }
}
