//! The path of a request: kept as sent, cut into segments that are decoded once (DESIGN §5).
//!
//! INVARIANT 4: what was judged is what is sent. A path that two servers could read differently (a dot
//! segment in any spelling, an empty segment, a backslash, `;` parameters, broken escapes) is refused
//! and never repaired (R23).

use std::sync::Arc;

use super::percent::{self, Broken};

/// A path that has been parsed once: the bytes that go upstream and the segments that are judged.
///
/// `/` has no segments. A trailing slash is a trailing **empty** segment: `/a/` is `["a", ""]`, because
/// upstreams differ on whether `/a/` is `/a`, and a rule about `/a` must not speak for `/a/` unless it
/// says so. A route's `{capture}` should not match the empty segment; `{rest*}` may.
///
/// Case is kept (R26): whether names are compared without case is the policy's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    raw: Arc<str>,
    segments: Vec<Arc<str>>,
    encoded_slash: bool,
}

/// Why a text is no path. None of the texts repeats what was given: it may be hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Neither `*` nor something that begins with a slash.
    #[error("a path begins with `/`")]
    NotAbsolute,
    /// `.` or `..`, in any spelling, also beside an encoded slash or before an encoded `;`.
    #[error("the path has a dot segment")]
    DotSegment,
    /// `//` anywhere.
    #[error("the path has an empty segment")]
    EmptySegment,
    /// A byte below 0x21, DEL or above, `#`, or `?`: as such, or (controls) behind an escape.
    #[error("the path has a character that must be percent-encoded or may not be there at all")]
    Character,
    /// `%` without two hex digits behind it.
    #[error("the path has a broken percent escape")]
    Escape,
    /// Escapes that decode to something that is not UTF-8.
    #[error("the path is not UTF-8 behind its escapes")]
    Utf8,
    /// A backslash, as such or behind an escape: some servers read it as a slash.
    #[error("the path has a backslash")]
    Backslash,
    /// `;`: servers cut path parameters off at different places.
    #[error("the path has `;` parameters")]
    Parameters,
}

impl Path {
    /// Parses the path of a request-target, without the query.
    pub fn parse(raw: &str) -> Result<Path, PathError> {
        if raw == "*" {
            return Ok(Path { raw: raw.into(), segments: Vec::new(), encoded_slash: false });
        }
        let rest = raw.strip_prefix('/').ok_or(PathError::NotAbsolute)?;
        check_bytes(rest)?;
        let mut segments = Vec::with_capacity(8);
        let mut encoded_slash = false;
        if !rest.is_empty() {
            let mut pieces = rest.split('/').peekable();
            while let Some(piece) = pieces.next() {
                if piece.is_empty() && (pieces.peek().is_some() || segments.is_empty()) {
                    return Err(PathError::EmptySegment);
                }
                let segment = decode_segment(piece)?;
                encoded_slash |= segment.contains('/');
                segments.push(segment);
            }
        }
        Ok(Path { raw: raw.into(), segments, encoded_slash })
    }

    /// As sent: exactly these bytes go upstream.
    pub fn as_str(&self) -> &str {
        &self.raw
    }

    /// The same, shared.
    pub fn raw(&self) -> &Arc<str> {
        &self.raw
    }

    /// Percent-decoded once.
    pub fn segments(&self) -> &[Arc<str>] {
        &self.segments
    }

    /// Whether a segment holds a slash that was sent as `%2F`. The caller refuses such a path unless the
    /// matching route says `encoded_slash = "data"`.
    pub fn has_encoded_slash(&self) -> bool {
        self.encoded_slash
    }

    /// Whether the last segment is empty: `/a/`.
    pub fn has_trailing_slash(&self) -> bool {
        self.segments.last().is_some_and(|last| last.is_empty())
    }

    /// Whether it is the `*` of `OPTIONS *`.
    pub fn is_asterisk(&self) -> bool {
        &*self.raw == "*"
    }
}

/// What may not stand in a path whatever the segment is.
fn check_bytes(rest: &str) -> Result<(), PathError> {
    for byte in rest.bytes() {
        match byte {
            b'\\' => return Err(PathError::Backslash),
            b';' => return Err(PathError::Parameters),
            b'#' | b'?' | 0..=0x20 | 0x7f.. => return Err(PathError::Character),
            _ => {}
        }
    }
    Ok(())
}

fn decode_segment(piece: &str) -> Result<Arc<str>, PathError> {
    let decoded = percent::decode(piece, false).map_err(|broken| match broken {
        Broken::Escape => PathError::Escape,
        Broken::Utf8 => PathError::Utf8,
    })?;
    // `..%3bx` is `..` to a server that cuts parameters off after decoding, and `..%2f` climbs in one
    // that decodes before it splits: the parts are looked at as such a server would see them.
    let climbs = |part: &str| matches!(part.split(';').next(), Some("." | ".."));
    if decoded.split('/').any(climbs) {
        return Err(PathError::DotSegment);
    }
    if decoded.contains('\\') {
        return Err(PathError::Backslash);
    }
    if decoded.chars().any(char::is_control) {
        return Err(PathError::Character);
    }
    Ok(decoded.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segments(raw: &str) -> Result<Vec<String>, PathError> {
        Path::parse(raw).map(|path| path.segments().iter().map(|s| s.to_string()).collect())
    }

    #[test]
    fn r23_dot_segments_in_any_spelling_are_refused() {
        for raw in [
            "/repos/me/../corp/x",
            "/repos/me/%2e%2e/corp/x",
            "/repos/me/.%2E/corp/x",
            "/repos/me/%2e./corp/x",
            "/repos/me/./a",
            "/repos/me/%2e",
            "/..",
            "/.",
            "/a/..",
            "/a/..%2fb",
            "/a/b%2f..",
            "/a/b%2F%2e%2E%2fc",
            "/a/..%3bx/b",
        ] {
            assert_eq!(segments(raw), Err(PathError::DotSegment), "{raw}");
        }
        assert_eq!(segments("/a/..;/b"), Err(PathError::Parameters));
        assert_eq!(segments("/a/..\\b"), Err(PathError::Backslash));
        assert_eq!(segments("/a/..%5cb"), Err(PathError::Backslash));
        // overlong UTF-8 for a dot
        assert_eq!(segments("/a/%c0%ae%c0%ae/b"), Err(PathError::Utf8));
    }

    #[test]
    fn r23_a_double_encoded_dot_stays_data_decoded_once() {
        assert_eq!(segments("/a/%252e%252e/b"), Ok(vec!["a".into(), "%2e%2e".into(), "b".into()]));
        assert_eq!(segments("/a/..."), Ok(vec!["a".into(), "...".into()]));
        assert_eq!(segments("/.git/config"), Ok(vec![".git".into(), "config".into()]));
    }

    #[test]
    fn r26_case_is_kept_as_sent() {
        let path = Path::parse("/REPOS/Corp/%53ecret").unwrap();
        assert_eq!(path.as_str(), "/REPOS/Corp/%53ecret");
        assert_eq!(path.segments().last().unwrap().as_ref(), "Secret");
    }

    #[test]
    fn r27_segments_are_whole_words() {
        assert_eq!(segments("/repos/me-evil/x"), Ok(vec!["repos".into(), "me-evil".into(), "x".into()]));
    }

    #[test]
    fn r29_odd_targets_parse_or_are_refused_and_never_panic() {
        assert!(Path::parse("*").unwrap().is_asterisk());
        assert_eq!(segments("/"), Ok(vec![]));
        assert_eq!(segments(""), Err(PathError::NotAbsolute));
        assert_eq!(segments("?x=1"), Err(PathError::NotAbsolute));
        assert_eq!(segments("a"), Err(PathError::NotAbsolute));
        assert_eq!(segments("**"), Err(PathError::NotAbsolute));
        assert_eq!(segments("/a#frag"), Err(PathError::Character));
        assert_eq!(segments("/a b"), Err(PathError::Character));
        assert_eq!(segments("/a?b"), Err(PathError::Character));
        assert_eq!(segments("/é"), Err(PathError::Character));
        assert_eq!(segments("/a\u{7f}"), Err(PathError::Character));
    }

    #[test]
    fn empty_segments_are_refused_but_for_one_at_the_end() {
        assert_eq!(segments("/a/"), Ok(vec!["a".into(), String::new()]));
        assert!(Path::parse("/a/").unwrap().has_trailing_slash());
        for raw in ["//", "//a", "/a//b", "/a//"] {
            assert_eq!(segments(raw), Err(PathError::EmptySegment), "{raw}");
        }
    }

    #[test]
    fn broken_escapes_and_decoded_controls_are_refused() {
        for raw in ["/%", "/%2", "/%zz", "/a%+1b", "/%u0041"] {
            assert_eq!(segments(raw), Err(PathError::Escape), "{raw}");
        }
        for raw in ["/a%00", "/a%0d%0aX:y", "/a%7f", "/%c2%85"] {
            assert_eq!(segments(raw), Err(PathError::Character), "{raw}");
        }
        assert_eq!(segments("/%ff"), Err(PathError::Utf8));
        assert_eq!(segments("/%ed%a0%80"), Err(PathError::Utf8));
    }

    #[test]
    fn an_encoded_slash_is_one_segment_and_noted() {
        let path = Path::parse("/projects/group%2Fproject/x").unwrap();
        assert_eq!(path.segments()[1].as_ref(), "group/project");
        assert!(path.has_encoded_slash());
        assert!(!Path::parse("/a/b").unwrap().has_encoded_slash());
        // twice encoded: data, and no slash after one decoding
        assert!(!Path::parse("/a/b%252Fc").unwrap().has_encoded_slash());
    }

    #[test]
    fn r154_path_text_is_data() {
        assert_eq!(segments("/x\");%20allow%20if%20true"), Err(PathError::Parameters));
        assert_eq!(segments("/x\")%3b%20allow%20if%20true"), Ok(vec!["x\"); allow if true".into()]));
    }

    proptest! {
        #[test]
        fn a_parsed_path_has_no_segment_that_climbs(raw in "/[a%2eEfF./;\\\\ -~]{0,24}") {
            if let Ok(path) = Path::parse(&raw) {
                prop_assert_eq!(path.as_str(), raw.as_str());
                for segment in path.segments() {
                    prop_assert!(segment.split('/').all(|part| part != "." && part != ".."));
                    prop_assert!(!segment.contains('\\') && !segment.chars().any(char::is_control));
                }
            }
        }

        #[test]
        fn what_a_client_encodes_comes_back(words in proptest::collection::vec("[a-zA-Z0-9 ü%+&=_-]{1,8}", 1..5)) {
            let encode = |w: &String| percent_encoding::utf8_percent_encode(w, percent_encoding::NON_ALPHANUMERIC).to_string();
            let raw: String = words.iter().map(|w| format!("/{}", encode(w))).collect();
            prop_assert_eq!(segments(&raw), Ok(words));
        }
    }
}
