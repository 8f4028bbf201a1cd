//! A `Content-Type`: its essence and its parameters (RFC 9110 §8.3.1).

/// A media type that has been taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Media {
    /// `type/subtype`, lower-case; empty if the field was missing.
    pub(super) essence: String,
    params: Vec<(String, String)>,
}

impl Media {
    /// Takes a field's value apart. A broken parameter or one that stands there twice is an error: two
    /// servers would read two things.
    pub(super) fn parse(text: &str) -> Result<Media, String> {
        let (essence, mut rest) = text.split_once(';').unwrap_or((text, ""));
        let mut params = Vec::new();
        loop {
            rest = rest.trim_matches([' ', '\t', ';']);
            if rest.is_empty() {
                break;
            }
            let (name, value, behind) = parameter(rest).ok_or("a broken content type")?;
            let name = name.to_ascii_lowercase();
            if params.iter().any(|(given, _)| *given == name) {
                return Err("a content type with a parameter that stands there twice".into());
            }
            params.push((name, value));
            rest = behind;
        }
        Ok(Media { essence: essence.trim_matches([' ', '\t']).to_ascii_lowercase(), params })
    }

    /// The value of a parameter.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// An error unless the text is UTF-8, as far as the type says.
    pub(super) fn require_utf8(&self) -> Result<(), String> {
        match self.param("charset").map(str::to_ascii_lowercase).as_deref() {
            None | Some("utf-8" | "utf8" | "us-ascii") => Ok(()),
            Some(_) => Err("a character set that is not UTF-8".into()),
        }
    }
}

/// One `name=value` at the beginning of the text, unquoted, and what stands behind it. `None` if it is
/// broken, or if the value has a backslash in quotes: parsers disagree on what that means.
pub(super) fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, rest) = text.split_once('=')?;
    if name.is_empty() || !name.bytes().all(is_token) {
        return None;
    }
    if let Some(quoted) = rest.strip_prefix('"') {
        let (value, behind) = quoted.split_once('"')?;
        let ended = behind.trim_start_matches([' ', '\t']);
        return (!value.contains('\\') && (ended.is_empty() || ended.starts_with(';')))
            .then(|| (name, value.to_owned(), ended));
    }
    let end = rest.find(';').unwrap_or(rest.len());
    let (value, behind) = rest.split_at_checked(end)?;
    let value = value.trim_end_matches([' ', '\t']);
    (!value.is_empty() && value.bytes().all(is_token)).then(|| (name, value.to_owned(), behind))
}

/// A character of an RFC 9110 token.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
