//! The chain: what makes a line depend on all lines before it.
//!
//! A line is `{"seq":N,…,"prev":"HASH","hash":"HASH"}`. `hash` is the SHA-256 of the line's own bytes up
//! to `,"hash"`, so that anybody can check it without a JSON library; `prev` is the line before's.

use sha2::{Digest, Sha256};

use super::json::put_number;
use crate::store::AuditHead;

/// A hash, as bytes.
pub(super) type Hash = [u8; 32];

/// What the first line follows.
pub(super) const GENESIS: Hash = [0; 32];

const HASH_KEY: &[u8] = b",\"hash\":\"";
const PREV_KEY: &[u8] = b",\"prev\":\"";
const HEX: usize = 64;

/// Where the chain stands: the last line's number and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) seq: u64,
    pub(super) hash: Hash,
}

impl Link {
    /// Before the first line.
    pub(super) const START: Link = Link { seq: 0, hash: GENESIS };

    /// As the store keeps it; `None` before the first line.
    pub(super) fn head(&self) -> Option<AuditHead> {
        (self.seq > 0).then(|| AuditHead { seq: self.seq, hash: hex::encode(self.hash) })
    }

    pub(super) fn of(head: &AuditHead) -> Option<Link> {
        Some(Link { seq: head.seq, hash: parse_hash(head.hash.as_bytes())? })
    }

    /// Appends a line with these fields, its newline included, and moves on.
    pub(super) fn append(&mut self, out: &mut Vec<u8>, fields: &[u8]) {
        let start = out.len();
        self.seq += 1;
        out.extend_from_slice(b"{\"seq\":");
        put_number(out, self.seq);
        out.push(b',');
        out.extend_from_slice(fields);
        out.extend_from_slice(PREV_KEY);
        put_hex(out, &self.hash);
        out.push(b'"');
        self.hash = Sha256::digest(out.get(start..).unwrap_or(&[])).into();
        out.extend_from_slice(HASH_KEY);
        put_hex(out, &self.hash);
        out.extend_from_slice(b"\"}\n");
    }
}

/// A line taken apart, and whether its own hash is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) link: Link,
    pub(super) prev: Hash,
    pub(super) intact: bool,
}

/// Takes a line (without its newline) apart; `None` if it isn't one.
pub(super) fn parse(line: &[u8]) -> Option<Line> {
    let body = line.strip_suffix(b"\"}")?;
    let (hashed, hash) = split_hash(body, HASH_KEY)?;
    let (_, prev) = split_hash(hashed.strip_suffix(b"\"")?, PREV_KEY)?;
    let digits = line.strip_prefix(b"{\"seq\":")?;
    let digits = digits.get(..digits.iter().position(|byte| *byte == b',')?)?;
    let seq = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let computed: Hash = Sha256::digest(hashed).into();
    Some(Line { link: Link { seq, hash }, prev, intact: computed == hash })
}

/// What stands before `KEY` and 64 hex digits at the end.
fn split_hash<'a>(text: &'a [u8], key: &[u8]) -> Option<(&'a [u8], Hash)> {
    let (rest, hex) = text.split_at_checked(text.len().checked_sub(HEX)?)?;
    Some((rest.strip_suffix(key)?, parse_hash(hex)?))
}

fn parse_hash(hex: &[u8]) -> Option<Hash> {
    // One spelling only: a changed letter case is a change too.
    if hex.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    let mut hash = GENESIS;
    hex::decode_to_slice(hex, &mut hash).ok()?;
    Some(hash)
}

fn put_hex(out: &mut Vec<u8>, hash: &Hash) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value & 15)).copied().unwrap_or(b'0');
    out.extend(hash.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_and_any_changed_byte_shows() {
        let mut link = Link::START;
        let mut out = Vec::new();
        link.append(&mut out, br#""kind":"operator""#);
        let first = link;
        link.append(&mut out, br#""kind":"outcome","path":",\"hash\":\"","seq":9"#);
        let lines: Vec<&[u8]> = out.split(|b| *b == b'\n').collect();
        let parsed = parse(lines[0]).unwrap();
        assert_eq!(parsed, Line { link: first, prev: GENESIS, intact: true });
        let parsed = parse(lines[1]).unwrap();
        assert_eq!(parsed, Line { link, prev: first.hash, intact: true });
        for (at, bit) in (0..lines[1].len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut changed = lines[1].to_vec();
            changed[at] ^= 1 << bit;
            assert!(parse(&changed).is_none_or(|line| !line.intact), "byte {at} bit {bit}");
        }
        assert_eq!(Link::of(&link.head().unwrap()), Some(link));
        assert_eq!(Link::START.head(), None);
    }
}
