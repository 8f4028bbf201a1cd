//! Who is asking: the token that a request brings (DESIGN §3.2).
//!
//! At the hop it comes from `Proxy-Authorization` (Bearer, or Basic with the token as either half) or
//! `X-Kleis-Token`. Where the client believes that we are the service (base-URL mode, our endpoints) the
//! headers of model SDKs are looked at too, and there a value that is no token is a placeholder and no error.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, PROXY_AUTHORIZATION};

use super::refuse::{Place, Refusal};
use crate::words::Reason;

/// A token's own field, for clients that can set headers on the hop but no proxy credentials.
pub const X_KLEIS_TOKEN: HeaderName = HeaderName::from_static("x-kleis-token");

/// Where SDKs of model services put what they believe to be a key.
const SDK_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
];

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The one token that the headers bring, unverified.
///
/// Two different ones are refused: who the request is from would depend on who reads it. Forged or mistyped
/// is not the same as missing: only the latter asks for a login.
pub fn token(headers: &HeaderMap, place: Place) -> Result<Cow<'_, str>, Refusal> {
    let mut found = None;
    for value in headers.get_all(PROXY_AUTHORIZATION) {
        let shown = credentials(value).ok_or(Reason::TokenInvalid)?;
        let mut any = false;
        for candidate in shown.candidates() {
            any = true;
            note(&mut found, candidate)?;
        }
        if !any {
            note(&mut found, shown.best())?;
        }
    }
    for value in headers.get_all(X_KLEIS_TOKEN) {
        let text = value.to_str().map_err(|_| Reason::TokenInvalid)?;
        note(&mut found, Cow::Borrowed(text.trim()))?;
    }
    if matches!(place, Place::BaseUrl | Place::Endpoint) {
        for value in headers.get_all(AUTHORIZATION) {
            for candidate in credentials(value).iter().flat_map(Shown::candidates) {
                note(&mut found, candidate)?;
            }
        }
        for value in SDK_HEADERS.iter().flat_map(|name| headers.get_all(name)) {
            if let Some(text) = value.to_str().ok().filter(|text| looks_like_token(text)) {
                note(&mut found, Cow::Borrowed(text))?;
            }
        }
    }
    found.ok_or_else(|| Reason::TokenMissing.into())
}

fn note<'a>(found: &mut Option<Cow<'a, str>>, token: Cow<'a, str>) -> Result<(), Refusal> {
    match found {
        Some(other) if *other != token => Err(Refusal::new(Reason::Malformed).say("it brings two different tokens")),
        Some(_) => Ok(()),
        None => {
            *found = Some(token);
            Ok(())
        }
    }
}

/// What a credentials field holds (RFC 9110 §11.4).
enum Shown<'a> {
    Bearer(&'a str),
    Basic { user: String, password: String },
}

fn credentials(value: &HeaderValue) -> Option<Shown<'_>> {
    let (scheme, rest) = value.to_str().ok()?.trim().split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Shown::Bearer(rest));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(BASE64.decode(rest).ok()?).ok()?;
    let (user, password) = text.split_once(':').unwrap_or((&text, ""));
    Some(Shown::Basic { user: user.to_owned(), password: password.to_owned() })
}

impl<'a> Shown<'a> {
    /// What looks like a token.
    fn candidates(&self) -> impl Iterator<Item = Cow<'a, str>> {
        let (one, two) = match self {
            Shown::Bearer(token) => (Some(Cow::Borrowed(*token)), None),
            Shown::Basic { user, password } => (Some(Cow::Owned(password.clone())), Some(Cow::Owned(user.clone()))),
        };
        one.into_iter().chain(two).filter(|text| looks_like_token(text))
    }

    /// What will be told to be no token, if nothing looks like one.
    fn best(&self) -> Cow<'a, str> {
        match self {
            Shown::Bearer(token) => Cow::Borrowed(token),
            Shown::Basic { user, password } if password.is_empty() => Cow::Owned(user.clone()),
            Shown::Basic { password, .. } => Cow::Owned(password.clone()),
        }
    }
}

/// Whether a text has the form of a token: base64url, and longer than any biscuit's first signature. What a
/// sandbox holds in place of a credential does not.
fn looks_like_token(text: &str) -> bool {
    text.len() >= 100 && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a() -> String {
        "A-".repeat(60)
    }

    fn b() -> String {
        "B_".repeat(60)
    }

    fn basic(text: &str) -> String {
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text))
    }

    fn found(fields: &[(&str, String)], place: Place) -> Result<String, Reason> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        token(&headers, place).map(Cow::into_owned).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn the_token_is_bearer_or_either_half_of_basic_or_a_header_of_its_own() {
        for (name, value) in [
            ("proxy-authorization", format!("Bearer {}", a())),
            ("proxy-authorization", format!("bearer  {}", a())),
            ("proxy-authorization", basic(&format!("kleis:{}", a()))),
            ("proxy-authorization", basic(&format!("{}:x", a()))),
            ("proxy-authorization", basic(&a())),
            ("x-kleis-token", a()),
        ] {
            assert_eq!(found(&[(name, value.clone())], Place::Hop), Ok(a()), "{value}");
        }
        let half = basic(&format!("{0}:{0}", a()));
        assert_eq!(found(&[("proxy-authorization", half), ("x-kleis-token", a())], Place::Hop), Ok(a()));
    }

    #[test]
    fn nothing_is_missing_and_anything_else_is_invalid() {
        assert_eq!(found(&[], Place::Hop), Err(Reason::TokenMissing));
        assert_eq!(found(&[("authorization", format!("Bearer {}", a()))], Place::Hop), Err(Reason::TokenMissing));
        assert_eq!(found(&[("proxy-authorization", basic("me:secret"))], Place::Hop), Ok("secret".into()));
        for wrong in ["Digest x", "Basic !", "x", "Basic"] {
            assert_eq!(found(&[("proxy-authorization", wrong.into())], Place::Hop), Err(Reason::TokenInvalid));
        }
    }

    #[test]
    fn two_different_tokens_are_refused() {
        let two = basic(&format!("{}:{}", a(), b()));
        assert_eq!(found(&[("proxy-authorization", two)], Place::Hop), Err(Reason::Malformed));
        let fields = [("proxy-authorization", format!("Bearer {}", a())), ("x-kleis-token", b())];
        assert_eq!(found(&fields, Place::Hop), Err(Reason::Malformed));
    }

    #[test]
    fn in_base_url_mode_sdk_headers_count_and_placeholders_do_not() {
        for name in ["x-api-key", "x-goog-api-key", "api-key"] {
            assert_eq!(found(&[(name, a())], Place::BaseUrl), Ok(a()));
            assert_eq!(found(&[(name, a())], Place::Hop), Err(Reason::TokenMissing));
        }
        assert_eq!(found(&[("authorization", format!("Bearer {}", a()))], Place::BaseUrl), Ok(a()));
        assert_eq!(found(&[("authorization", basic(&format!("kleis:{}", a())))], Place::BaseUrl), Ok(a()));
        let both = [("authorization", "Bearer kleis-work".into()), ("x-kleis-token", a())];
        assert_eq!(found(&both, Place::BaseUrl), Ok(a()));
        assert_eq!(found(&[("x-api-key", "kleis".into())], Place::BaseUrl), Err(Reason::TokenMissing));
        let two = [("authorization", format!("Bearer {}", a())), ("x-api-key", b())];
        assert_eq!(found(&two, Place::BaseUrl), Err(Reason::Malformed));
    }
}
