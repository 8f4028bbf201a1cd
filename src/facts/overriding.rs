//! Method overriding: a request whose method is not the one that its server acts on (R97).

use super::{Key, Query, RequestView, Term};

/// Where a request asks for another method than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodOverride {
    /// A header: `x-http-method-override`, `x-http-method` or `x-method-override`.
    Header,
    /// `_method` in the query.
    Query,
    /// `_method` at the top of the body.
    Body,
}

const HEADERS: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];
const FIELD: &str = "_method";

/// Whether a request tries to override its method. The caller refuses it on a claimed host unless the
/// manifest names the override. `body` is the decoded tree, if there is one: decoders keep a top-level
/// `_method` whatever `body_paths` says.
pub fn method_override(view: &RequestView<'_>, query: &Query, body: Option<&Term>) -> Option<MethodOverride> {
    if view.headers.iter().any(|(name, _)| overrides(name)) {
        return Some(MethodOverride::Header);
    }
    // Some frameworks also cut a query at `;`, so a field that only they see counts too.
    let hidden = |text: &str| text.split(';').any(|piece| piece.split('=').next() == Some(FIELD));
    if query.pairs().iter().any(|(key, value)| hidden(key) || (value.contains(';') && hidden(value))) {
        return Some(MethodOverride::Query);
    }
    match body {
        Some(Term::Map(entries)) if entries.contains_key(&Key::Str(FIELD.into())) => Some(MethodOverride::Body),
        _ => None,
    }
}

/// `_` and `-` are one character to servers that hand headers on as CGI variables.
fn overrides(name: &str) -> bool {
    HEADERS.iter().any(|header| {
        header.len() == name.len() && header.bytes().zip(name.bytes()).all(|(h, n)| h == n || (h == b'-' && n == b'_'))
    })
}
