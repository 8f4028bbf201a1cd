//! Names of things that an operator names: services, credentials, grants, specs, issuers.

use std::fmt;
use std::sync::Arc;

/// Why a text is no name of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a name for a {what}: use {accepted}")]
pub struct NameError {
    /// The kind of name that was expected.
    pub what: &'static str,
    /// What was given.
    pub given: String,
    /// What would be accepted.
    pub accepted: &'static str,
}

const ACCEPTED: &str = "1 to 64 of a-z, A-Z, 0-9, `-`, `_`, `.`, beginning with a letter or digit";
const ACCEPTED_PAIR: &str = "`service/account`, each 1 to 64 of a-z, A-Z, 0-9, `-`, `_`, `.`";

fn is_name(text: &str) -> bool {
    let body = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= 64 && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(body)
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $accepted:expr, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks the text; the error says what would be accepted.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) {
                    Ok($type(text.into()))
                } else {
                    Err(NameError { what: $what, given: text.to_owned(), accepted: $accepted })
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "`{}`", self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                $type::parse(&text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0.as_ref().to_owned()
            }
        }

        impl std::str::FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                $type::parse(text)
            }
        }

        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// A service: the `name` of a manifest.
    ServiceName, "service", ACCEPTED, is_name
);
name!(
    /// A grant: the `name` of a grant file.
    GrantName, "grant", ACCEPTED, is_name
);
name!(
    /// A spec: the stem of a `.spec` file.
    SpecName, "spec", ACCEPTED, is_name
);
name!(
    /// An issuer: the `name` of an `[[issuer]]`.
    IssuerName, "issuer", ACCEPTED, is_name
);
name!(
    /// A credential: `service/account`. The first half is a name that the owner chose; which service
    /// the credential serves is recorded with it and is usually, but not necessarily, the same word.
    CredentialName, "credential", ACCEPTED_PAIR,
    |text| text.split_once('/').is_some_and(|(a, b)| is_name(a) && is_name(b))
);

impl CredentialName {
    /// The half behind the slash.
    pub fn account(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, account)| account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_plain_words() {
        assert!(ServiceName::parse("github").is_ok());
        assert!(GrantName::parse("orchestra-github.v2").is_ok());
        for wrong in ["", "-x", "a b", "a/b", "ü", "a\n", &"x".repeat(65)] {
            assert!(ServiceName::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_credential_has_exactly_two_halves() {
        assert_eq!(CredentialName::parse("github/app").unwrap().account(), "app");
        for wrong in ["github", "github/", "/app", "a/b/c", "a/../b"] {
            assert!(CredentialName::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
