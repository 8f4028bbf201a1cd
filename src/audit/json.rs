//! One flat JSON object, written by hand: two of them are made for every request.
//!
//! What comes from outside is escaped beyond what JSON asks for (R174): control characters, C1, line and
//! paragraph separators and what turns the direction of text, because terminals and log viewers are
//! targets too. Parsed back, a value equals what was given, or says that it was cut.

use std::fmt::Write as _;
use std::time::SystemTime;

use time::OffsetDateTime;

use super::Raw;

/// Writes the fields of one object, without its braces, into a buffer.
pub(super) struct Fields<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Fields<'a> {
        Fields { out }
    }

    fn key(&mut self, key: &str) {
        if !self.out.is_empty() {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// Words of ours: nothing in them needs escaping.
    pub(super) fn word(&mut self, key: &str, word: &str) {
        self.key(key);
        self.out.push(b'"');
        self.out.extend_from_slice(word.as_bytes());
        self.out.push(b'"');
    }

    pub(super) fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        put_number(self.out, number);
    }

    pub(super) fn yes(&mut self, key: &str) {
        self.key(key);
        self.out.extend_from_slice(b"true");
    }

    /// UTC, to the microsecond.
    pub(super) fn time(&mut self, key: &str, at: SystemTime) {
        self.key(key);
        self.out.push(b'"');
        put_time(self.out, at);
        self.out.push(b'"');
    }

    /// Text that came from outside, at most `cap` bytes of it. If it was cut, `KEY_cut` has its length;
    /// if it isn't UTF-8, `KEY_hex` has its bytes.
    pub(super) fn text(&mut self, key: &str, raw: Raw<'_>, cap: usize) {
        self.key(key);
        let (kept, cut) = cap_at(raw.0, cap);
        self.out.push(b'"');
        let lossless = put_escaped(self.out, kept);
        if cut {
            self.out.extend_from_slice("…".as_bytes());
        }
        self.out.push(b'"');
        if !lossless {
            self.key(&format!("{key}_hex"));
            self.out.push(b'"');
            self.out.extend_from_slice(hex::encode(kept).as_bytes());
            self.out.push(b'"');
        }
        if cut {
            self.number(&format!("{key}_cut"), raw.0.len() as u64);
        }
    }

    /// Several texts. If some were left out, `KEY_cut` has their number.
    pub(super) fn texts<T: AsRef<[u8]>>(&mut self, key: &str, items: impl ExactSizeIterator<Item = T>, cap: usize) {
        const MAX_ITEMS: usize = 64;
        let count = items.len();
        self.key(key);
        self.out.push(b'[');
        for (index, item) in items.take(MAX_ITEMS).enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            let (kept, cut) = cap_at(item.as_ref(), cap);
            self.out.push(b'"');
            put_escaped(self.out, kept);
            if cut {
                self.out.extend_from_slice("…".as_bytes());
            }
            self.out.push(b'"');
        }
        self.out.push(b']');
        if count > MAX_ITEMS {
            self.number(&format!("{key}_cut"), count as u64);
        }
    }

    /// A value that is JSON already.
    pub(super) fn json(&mut self, key: &str, put: impl FnOnce(&mut Vec<u8>)) {
        self.key(key);
        put(self.out);
    }
}

/// The first `cap` bytes, less what would split a character, and whether anything was left out.
fn cap_at(bytes: &[u8], cap: usize) -> (&[u8], bool) {
    if bytes.len() <= cap {
        return (bytes, false);
    }
    let is_boundary = |at: &usize| bytes.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    // Beyond four bytes back it isn't UTF-8 anyway.
    let end = (cap.saturating_sub(3)..=cap).rev().find(is_boundary).unwrap_or(cap);
    (bytes.get(..end).unwrap_or(bytes), true)
}

/// Escapes into a JSON string. Whether nothing was lost: bytes that are no UTF-8 become U+FFFD.
pub(super) fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let plain = |byte: &u8| matches!(byte, 0x20..=0x7e) && *byte != b'"' && *byte != b'\\';
    if bytes.iter().all(plain) {
        out.extend_from_slice(bytes);
        return true;
    }
    let mut lossless = true;
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| put_char(out, c));
        if !chunk.invalid().is_empty() {
            lossless = false;
            put_char(out, char::REPLACEMENT_CHARACTER);
        }
    }
    lossless
}

fn put_char(out: &mut Vec<u8>, c: char) {
    match c {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        c if crate::token::is_unprintable(c) => {
            let mut units = [0u16; 2];
            for unit in c.encode_utf16(&mut units) {
                out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
        }
        c => {
            let mut buffer = [0u8; 4];
            out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        }
    }
}

pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        at -= 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or(&[]));
}

fn put_time(out: &mut Vec<u8>, at: SystemTime) {
    let at = OffsetDateTime::from(at);
    let two = |out: &mut Vec<u8>, number: u8| out.extend_from_slice(&[b'0' + number / 10 % 10, b'0' + number % 10]);
    let mut year = String::with_capacity(5);
    let _ = write!(year, "{:04}-", at.year());
    out.extend_from_slice(year.as_bytes());
    two(out, u8::from(at.month()));
    out.push(b'-');
    two(out, at.day());
    out.push(b'T');
    two(out, at.hour());
    out.push(b':');
    two(out, at.minute());
    out.push(b':');
    two(out, at.second());
    out.push(b'.');
    let micro = at.microsecond();
    for scale in [100_000, 10_000, 1_000, 100, 10, 1] {
        out.push(b'0' + u8::try_from(micro / scale % 10).unwrap_or(0));
    }
    out.push(b'Z');
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn object(write: impl FnOnce(&mut Fields<'_>)) -> serde_json::Map<String, serde_json::Value> {
        let mut out = Vec::new();
        write(&mut Fields::new(&mut out));
        let text = format!("{{{}}}", String::from_utf8(out).unwrap());
        assert!(!text.chars().any(crate::token::is_unprintable), "{text:?}");
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn r174_hostile_text_is_one_line_and_reads_back_as_it_was() {
        for hostile in [
            "a\r\n{\"kind\":\"decision\",\"decision\":\"allow\"}",
            "\"},{\"x\":\"",
            "\u{1b}[2J\u{1b}]0;x\u{7}",
            "\u{2028}\u{2029}\u{85}\u{9b}31m\u{7f}\0",
            "\u{202e}gnp.exe\u{2066}\u{feff}",
            "\\u0022 \\ \\\\",
            "emoji \u{1F600} and é",
        ] {
            let object = object(|f| f.text("path", hostile.into(), 1024));
            assert_eq!(object.len(), 1);
            assert_eq!(object["path"], hostile);
        }
    }

    #[test]
    fn r174_a_mebibyte_is_cut_and_says_so() {
        let long = "ü\n".repeat(1 << 19);
        let object = object(|f| f.text("path", long.as_str().into(), 1000));
        assert_eq!(object["path_cut"], long.len());
        let kept = object["path"].as_str().unwrap().strip_suffix('…').unwrap();
        assert!(long.starts_with(kept) && kept.len() > 990);
    }

    #[test]
    fn r174_bytes_that_are_no_text_are_kept_beside_it() {
        let object = object(|f| f.text("path", Raw(b"/a\xff\xfe/\xc3"), 100));
        assert_eq!(object["path"], "/a\u{fffd}\u{fffd}/\u{fffd}");
        assert_eq!(object["path_hex"], "2f61fffe2fc3");
    }

    #[test]
    fn numbers_times_and_lists() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_796_040_000_000_123);
        let many: Vec<String> = (0..70).map(|n| n.to_string()).collect();
        let object = object(|f| {
            f.number("zero", 0);
            f.number("max", u64::MAX);
            f.time("time", at);
            f.texts("many", many.iter(), 10);
            f.yes("yes");
        });
        assert_eq!(object["zero"], 0);
        assert_eq!(object["max"], u64::MAX);
        assert_eq!(object["time"], "2026-11-30T12:00:00.000123Z");
        assert_eq!(object["many"].as_array().unwrap().len(), 64);
        assert_eq!(object["many_cut"], 70);
        assert_eq!(object["yes"], true);
    }

    proptest! {
        #[test]
        fn any_bytes_make_one_object_and_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..80), cap in 1usize..60) {
            let object = object(|f| f.text("x", Raw(&bytes), cap));
            let cut = object.get("x_cut").is_some();
            prop_assert_eq!(cut, bytes.len() > cap);
            let shown = object["x"].as_str().unwrap();
            let shown = if cut { shown.strip_suffix('…').unwrap() } else { shown };
            match object.get("x_hex") {
                Some(hex) => prop_assert!(bytes.starts_with(&hex::decode(hex.as_str().unwrap()).unwrap())),
                None => prop_assert!(bytes.starts_with(shown.as_bytes())),
            }
        }
    }
}
