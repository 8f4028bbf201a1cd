//! Percent-decoding, once and strictly.

use std::borrow::Cow;

/// What is wrong with an escaped text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// `%` without two hex digits.
    Escape,
    /// Not UTF-8 once decoded.
    Utf8,
}

/// Decodes each escape once; with `plus`, `+` is a space, as in forms and queries.
pub(crate) fn decode(text: &str, plus: bool) -> Result<Cow<'_, str>, Broken> {
    if !text.bytes().any(|b| b == b'%' || (plus && b == b'+')) {
        return Ok(Cow::Borrowed(text));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let high = bytes.next().and_then(hex_digit).ok_or(Broken::Escape)?;
                let low = bytes.next().and_then(hex_digit).ok_or(Broken::Escape)?;
                high << 4 | low
            }
            b'+' if plus => b' ',
            other => other,
        });
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| Broken::Utf8)
}

/// The value of a hex digit.
pub(crate) fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
