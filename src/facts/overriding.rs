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
    body.is_some_and(names_method).then_some(MethodOverride::Body)
}

/// Whether a decoded body has the field: at its top, or as a part of a multipart form.
fn names_method(body: &Term) -> bool {
    let field = |name: &str| Key::Str(name.into());
    let Term::Map(entries) = body else { return false };
    let is_method = |part: &Term| match part {
        Term::Map(part) => part.get(&field("name")).and_then(Term::as_str) == Some(FIELD),
        _ => false,
    };
    entries.contains_key(&field(FIELD))
        || matches!(entries.get(&field("parts")), Some(Term::Array(parts)) if parts.iter().any(is_method))
}

/// `_` and `-` are one character to servers that hand headers on as CGI variables.
fn overrides(name: &str) -> bool {
    HEADERS.iter().any(|header| {
        header.len() == name.len() && header.bytes().zip(name.bytes()).all(|(h, n)| h == n || (h == b'-' && n == b'_'))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::words::{Authority, Scheme};

    fn asks(header: &str, query: &str, body: Option<Term>) -> Option<MethodOverride> {
        let authority = Authority::parse(Scheme::Https, "a.test").unwrap();
        let headers = [(header, &b"DELETE"[..])];
        let view = RequestView {
            id: "1",
            method: "POST",
            authority: &authority,
            path: "/",
            query: Some(query),
            headers: &headers,
            size: None,
            client: None,
            time: 0,
        };
        method_override(&view, &Query::parse(Some(query)).unwrap(), body.as_ref())
    }

    fn map(key: &str, value: Term) -> Term {
        Term::Map(Arc::new(BTreeMap::from([(Key::Str(key.into()), value)])))
    }

    #[test]
    fn r97_an_override_is_seen_wherever_it_stands() {
        for name in ["x-http-method-override", "x-http-method", "x-method-override", "x_http_method_override"] {
            assert_eq!(asks(name, "", None), Some(MethodOverride::Header), "{name}");
        }
        for query in ["_method=DELETE", "a=1&%5Fmethod=put", "_method", "a=1;_method=DELETE", "a;_method=x"] {
            assert_eq!(asks("accept", query, None), Some(MethodOverride::Query), "{query}");
        }
        let part = map("name", "_method".into());
        for body in [map("_method", "DELETE".into()), map("parts", Term::Array([part].into()))] {
            assert_eq!(asks("accept", "", Some(body)), Some(MethodOverride::Body));
        }
    }

    #[test]
    fn r97_other_requests_override_nothing() {
        assert_eq!(asks("x-http-methods", "method=x&q=_method&a=b;c", Some(map("method", "x".into()))), None);
        assert_eq!(asks("accept", "", Some(map("inner", map("_method", "x".into())))), None);
    }
}
