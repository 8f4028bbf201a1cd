//! A value that must not be seen.

use std::fmt;

use zeroize::Zeroizing;

/// Bytes that may be spent but never shown: no `Display`, no `Serialize`, a `Debug` without content,
/// constant-time comparison, wiped when dropped.
///
/// [`Secret::expose`] is called by the injector, by the seal and by the providers' own exchanges, and
/// nowhere else; `tests/secrets.rs` greps for it.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes as they are.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Secret(Zeroizing::new(bytes.into()))
    }

    /// The bytes themselves. Every call site is one that a reviewer looks at.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as text, if they are UTF-8.
    pub fn expose_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for Secret {
    /// Looks at every byte whatever the first difference, so that timing tells nothing but the length.
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(other.0.iter()).fold(0u8, |acc, (a, b)| acc | (a ^ b)) == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_a_secret() {
        let shown = format!("{:?}", Secret::new("ghp_topsecret"));
        assert_eq!(shown, "Secret(…)");
    }

    #[test]
    fn comparison_is_by_content() {
        assert_eq!(Secret::new("a"), Secret::new("a"));
        assert_ne!(Secret::new("a"), Secret::new("b"));
        assert_ne!(Secret::new("a"), Secret::new("ab"));
    }
}
