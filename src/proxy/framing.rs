//! Where an HTTP/1 message begins and ends, read strictly (RFC 9112 §2, §6, §7).
//!
//! hyper's parser is lenient where two readers can disagree: it takes bare LF for a line end, drops one of
//! two framings, takes the first of equal lengths. A proxy that judges one request and sends another is
//! smuggled through (R30, R31, R35, R37), so heads are checked here, as bytes, before hyper sees them,
//! and bodies are followed to find where the next head begins.

use crate::words::Reason;

/// What is wrong with a head or a body's framing. Every one of them ends the connection: nobody knows
/// any more where the next message begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// The code it is recorded under.
    pub reason: Reason,
    /// What was wrong, in words of ours: what was sent is not repeated.
    pub text: &'static str,
}

const fn malformed(text: &'static str) -> Violation {
    Violation { reason: Reason::Malformed, text }
}

const fn framing(text: &'static str) -> Violation {
    Violation { reason: Reason::AmbiguousFraming, text }
}

const fn too_large(text: &'static str) -> Violation {
    Violation { reason: Reason::HeadTooLarge, text }
}

/// How large a head may be.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// All of it, in bytes.
    pub head: usize,
    /// The request-target, in bytes.
    pub target: usize,
    /// Fields.
    pub fields: usize,
}

impl Default for HeadLimits {
    fn default() -> HeadLimits {
        // 100 is what hyper parses without allocating.
        HeadLimits { head: 64 * 1024, target: 16 * 1024, fields: 100 }
    }
}

/// What follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// That many bytes; 0 when there is no body.
    Length(u64),
    /// Chunks.
    Chunked(Chunks),
}

/// A head that is being read; fed with all of its bytes so far, each time they grow.
#[derive(Debug, Default)]
pub struct Head {
    /// Bytes that have been looked at for a line end.
    searched: usize,
    /// Where the line that is being read begins.
    line_start: usize,
    lines: usize,
    old_version: bool,
    connect: bool,
    hosts: usize,
    length: Option<u64>,
    chunked: bool,
}

/// How far a head has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    Partial,
    /// It is complete: so many bytes, and what follows.
    Complete(usize, Framing),
}

impl Head {
    /// Whether nothing of it has come.
    pub fn is_new(&self) -> bool {
        self.searched == 0
    }

    /// Reads on. `bytes` begins with the head's first byte and holds all that has come of it.
    pub fn feed(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<Progress, Violation> {
        if self.searched == 0 && !bytes.first().is_some_and(|b| is_token(*b)) {
            return Err(malformed("a request begins with its method"));
        }
        while let Some(at) = bytes.get(self.searched..).and_then(|rest| memchr::memchr(b'\n', rest)) {
            let end = self.searched + at + 1;
            if end > limits.head {
                return Err(too_large("the head is longer than what is read of one"));
            }
            let line = bytes.get(self.line_start..end).unwrap_or_default();
            (self.searched, self.line_start) = (end, end);
            let Some(line) = line.strip_suffix(b"\r\n") else {
                return Err(malformed("a line of a head ends with CR and LF"));
            };
            if !is_field_text(line) {
                return Err(malformed("the head has a control character in it"));
            }
            if line.is_empty() {
                return Ok(Progress::Complete(end, self.framing()?));
            }
            if self.lines == 0 {
                self.request_line(line, limits)?
            } else {
                self.field(line, limits)?
            }
            self.lines += 1;
        }
        self.searched = bytes.len();
        // an over-long method or target is told before its line ends
        if bytes.len() > limits.head || (self.lines == 0 && bytes.len() > limits.target + 64) {
            return Err(too_large("the head is longer than what is read of one"));
        }
        Ok(Progress::Partial)
    }

    fn request_line(&mut self, line: &[u8], limits: &HeadLimits) -> Result<(), Violation> {
        let mut parts = line.split(|b| *b == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed("a request line is a method, a target and a version, with one space between"));
        };
        if method.is_empty() || method.len() > 32 || !method.iter().all(|b| is_token(*b)) {
            return Err(malformed("the method is not one"));
        }
        if target.len() > limits.target {
            return Err(too_large("the request-target is longer than what is read of one"));
        }
        if target.is_empty() || !target.iter().all(|b| b.is_ascii_graphic() && *b != b'#') {
            return Err(malformed("the request-target has a character that none has"));
        }
        self.connect = method == b"CONNECT";
        self.old_version = match version {
            b"HTTP/1.1" => false,
            b"HTTP/1.0" => true,
            _ => return Err(malformed("the version is HTTP/1.1 or HTTP/1.0")),
        };
        Ok(())
    }

    fn field(&mut self, line: &[u8], limits: &HeadLimits) -> Result<(), Violation> {
        if self.lines > limits.fields {
            return Err(too_large("the head has more fields than are read of one"));
        }
        let colon = memchr::memchr(b':', line).ok_or(malformed("a field has a colon behind its name"))?;
        let (name, rest) = line.split_at(colon);
        // a line that begins with a space continues the one before it for some readers (obs-fold)
        if name.is_empty() || !name.iter().all(|b| is_token(*b)) {
            return Err(malformed("a field's name is not one, or the field is folded"));
        }
        let value = rest.strip_prefix(b":").unwrap_or(rest).trim_ascii();
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => self.hosts += 1,
            14 if name.eq_ignore_ascii_case(b"content-length") => self.content_length(value)?,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.transfer_encoding(value)?,
            _ => {}
        }
        Ok(())
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Violation> {
        if self.length.is_some() {
            return Err(framing("there is more than one Content-Length"));
        }
        let digits = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
        let number = digits.then(|| value.iter().fold(0, |n, b| n * 10 + u64::from(b - b'0')));
        self.length = Some(number.ok_or(framing("a Content-Length is a plain decimal number"))?);
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Violation> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(framing("a Transfer-Encoding is `chunked`, once"));
        }
        self.chunked = true;
        Ok(())
    }

    fn framing(&self) -> Result<Framing, Violation> {
        if self.lines == 0 {
            return Err(malformed("a request begins with its method"));
        }
        // R42: Pythons before 3.12 send CONNECT without Host; its target says all there is to say
        if self.hosts > 1 || (self.hosts == 0 && !self.old_version && !self.connect) {
            return Err(malformed("a request has one Host"));
        }
        match (self.length, self.chunked) {
            (Some(_), true) => Err(framing("there are both a Content-Length and a Transfer-Encoding")),
            (None, true) if self.old_version => Err(framing("HTTP/1.0 has no Transfer-Encoding")),
            (_, _) if self.connect && (self.chunked || self.length.unwrap_or(0) > 0) => {
                Err(framing("a CONNECT has no body"))
            }
            (None, true) => Ok(Framing::Chunked(Chunks::default())),
            (length, false) => Ok(Framing::Length(length.unwrap_or(0))),
        }
    }
}

impl Framing {
    /// Follows the body through `bytes`; answers how many of them belong to it.
    pub fn follow(&mut self, bytes: &[u8]) -> Result<usize, Violation> {
        match self {
            Framing::Length(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= taken as u64;
                Ok(taken)
            }
            Framing::Chunked(chunks) => chunks.follow(bytes),
        }
    }

    /// Whether the body is over.
    pub fn is_over(&self) -> bool {
        matches!(self, Framing::Length(0) | Framing::Chunked(Chunks { at: At::Over, .. }))
    }
}

/// A chunked body that is being followed (RFC 9112 §7.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chunks {
    at: At,
    /// Bytes left of the chunk, or its size while that is being read.
    left: u64,
    /// Bytes of extensions and trailers so far.
    extra: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    #[default]
    SizeStart,
    Size,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    Trailer,
    TrailerLf,
    LastLf,
    Over,
}

/// What a body's extensions and trailers may amount to.
const MAX_EXTRA: u32 = 16 * 1024;

impl Chunks {
    fn follow(&mut self, bytes: &[u8]) -> Result<usize, Violation> {
        let mut rest = bytes;
        while self.at != At::Over {
            if self.at == At::Data {
                let taken = usize::try_from(self.left).unwrap_or(usize::MAX).min(rest.len());
                self.left -= taken as u64;
                rest = rest.get(taken..).unwrap_or_default();
                if self.left > 0 {
                    break;
                }
                self.at = At::DataCr;
            }
            let Some((byte, tail)) = rest.split_first() else { break };
            self.step(*byte)?;
            rest = tail;
        }
        Ok(bytes.len() - rest.len())
    }

    fn step(&mut self, byte: u8) -> Result<(), Violation> {
        const WRONG: Violation = framing("a chunk is a size in hex, CR LF, its bytes, CR LF");
        self.at = match (self.at, byte) {
            (At::SizeStart | At::Size, b) if b.is_ascii_hexdigit() => {
                let digit = char::from(b).to_digit(16).unwrap_or(0);
                // no size comes near 2^60, so nothing overflows
                if self.left >> 56 != 0 {
                    return Err(WRONG);
                }
                if self.left == 0 {
                    self.extra(b, At::Size)?;
                }
                self.left = self.left << 4 | u64::from(digit);
                At::Size
            }
            (At::Size, b'\r') => At::SizeLf,
            (At::Size, b';') | (At::Extension, _) if byte != b'\r' => self.extra(byte, At::Extension)?,
            (At::Extension, b'\r') => At::SizeLf,
            (At::SizeLf, b'\n') if self.left == 0 => At::TrailerStart,
            (At::SizeLf, b'\n') => At::Data,
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::SizeStart,
            (At::TrailerStart, b'\r') => At::LastLf,
            (At::TrailerStart | At::TrailerName, b) if is_token(b) => self.extra(b, At::TrailerName)?,
            (At::TrailerName, b':') => At::Trailer,
            (At::Trailer, b'\r') => At::TrailerLf,
            (At::Trailer, b) => self.extra(b, At::Trailer)?,
            (At::TrailerLf, b'\n') => At::TrailerStart,
            (At::LastLf, b'\n') => At::Over,
            _ => return Err(WRONG),
        };
        Ok(())
    }

    fn extra(&mut self, byte: u8, at: At) -> Result<At, Violation> {
        self.extra += 1;
        if self.extra > MAX_EXTRA {
            return Err(too_large("the body's chunk extensions or trailers are too long"));
        }
        if byte != b'\t' && byte.is_ascii_control() {
            return Err(framing("a chunk extension or trailer has a control character in it"));
        }
        Ok(at)
    }
}

/// RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0u8;
        while byte < 128 {
            let listed = matches!(
                byte,
                b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
            );
            #[allow(clippy::indexing_slicing, reason = "evaluated by the compiler: a byte is within 256")]
            {
                table[byte as usize] = listed || byte.is_ascii_alphanumeric();
            }
            byte += 1;
        }
        table
    };
    TABLE.get(usize::from(byte)).copied().unwrap_or(false)
}

/// No control character but the tab; a lone CR would begin a line for the next reader (R35). Without an
/// early end, so that it is done in vectors.
fn is_field_text(line: &[u8]) -> bool {
    !line.iter().fold(false, |bad, b| bad | ((*b < 0x20) & (*b != b'\t')) | (*b == 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &[u8]) -> Result<Progress, Violation> {
        Head::default().feed(head, &HeadLimits::default())
    }

    fn reason(head: &[u8]) -> Option<Reason> {
        read(head).err().map(|violation| violation.reason)
    }

    #[test]
    fn a_head_is_complete_at_its_empty_line_however_it_arrives() {
        let head = b"POST /a?b HTTP/1.1\r\nHost: a.test\r\ncontent-length:  5 \r\n\r\n";
        let whole = Ok(Progress::Complete(head.len(), Framing::Length(5)));
        assert_eq!(read(&[head.as_slice(), b"hello"].concat()), whole);
        let mut slow = Head::default();
        for end in 1..head.len() {
            assert_eq!(slow.feed(&head[..end], &HeadLimits::default()), Ok(Progress::Partial));
        }
        assert_eq!(slow.feed(head, &HeadLimits::default()), whole);
    }

    #[test]
    fn r30_two_framings_are_refused_in_every_order() {
        for fields in [
            "Content-Length: 4\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 4",
            "Content-Length: 0\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding:",
        ] {
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
            assert_eq!(reason(head.as_bytes()), Some(Reason::AmbiguousFraming), "{fields}");
        }
        assert!(reason(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").is_some());
    }

    #[test]
    fn r31_a_content_length_is_one_plain_number() {
        for value in [
            "5\r\nContent-Length: 6",
            "5\r\nContent-Length: 5",
            "5, 5",
            "+5",
            "0x5",
            "-1",
            "5 5",
            "",
            "99999999999999999999",
        ] {
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {value}\r\n\r\n");
            assert_eq!(reason(head.as_bytes()), Some(Reason::AmbiguousFraming), "{value}");
        }
    }

    #[test]
    fn r35_bare_lf_lone_cr_and_folding_are_refused() {
        for head in [
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n\tfolded\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX-A: \0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        ] {
            assert_eq!(reason(head.as_bytes()), Some(Reason::Malformed), "{head:?}");
        }
    }

    #[test]
    fn r41_only_the_two_versions_are_spoken() {
        for line in [
            "GET /x",
            "GET /x HTTP/0.9",
            "GET /x HTTP/1.9",
            "GET /x HTTP/2.0",
            "GET /x http/1.1",
            "GET  /x HTTP/1.1",
            "GET /x HTTP/1.1 ",
            "PRI * HTTP/2.0",
            "GET /a b HTTP/1.1",
            "GET /a#frag HTTP/1.1",
            "GET /\u{e9} HTTP/1.1",
            "\u{16}\u{3}\u{1}",
            " GET / HTTP/1.1",
        ] {
            assert_eq!(reason(format!("{line}\r\nHost: a\r\n\r\n").as_bytes()), Some(Reason::Malformed), "{line}");
        }
        assert_eq!(
            reason(format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "M".repeat(8192)).as_bytes()),
            Some(Reason::Malformed)
        );
    }

    #[test]
    fn r42_connect_without_host_is_fine_and_other_requests_need_one() {
        assert!(read(b"CONNECT a.test:443 HTTP/1.0\r\n\r\n").is_ok());
        assert!(read(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n").is_ok());
        assert!(read(b"GET http://a.test/ HTTP/1.0\r\n\r\n").is_ok());
        assert_eq!(reason(b"GET / HTTP/1.1\r\n\r\n"), Some(Reason::Malformed));
        assert_eq!(reason(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), Some(Reason::Malformed));
        assert_eq!(reason(b"CONNECT a:1 HTTP/1.1\r\nContent-Length: 3\r\n\r\n"), Some(Reason::AmbiguousFraming));
    }

    #[test]
    fn r123_heads_have_limits_that_are_met_early() {
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(32 * 1024));
        assert_eq!(reason(long.as_bytes()), Some(Reason::HeadTooLarge));
        assert_eq!(reason("G".repeat(20_000).as_bytes()), Some(Reason::HeadTooLarge));
        let field = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "a".repeat(65 * 1024));
        assert_eq!(reason(field.as_bytes()), Some(Reason::HeadTooLarge));
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(300));
        assert_eq!(reason(many.as_bytes()), Some(Reason::HeadTooLarge));
    }

    fn chunks(body: &[u8]) -> Result<(usize, bool), Violation> {
        let mut framing = Framing::Chunked(Chunks::default());
        let taken = framing.follow(body)?;
        Ok((taken, framing.is_over()))
    }

    #[test]
    fn r37_a_body_ends_where_its_framing_says_and_the_rest_is_the_next_request() {
        let body = b"5;a=b\r\nhello\r\n0\r\nX-Trailer: y\r\n\r\n";
        let both = [body.as_slice(), b"DELETE /x HTTP/1.1\r\n"].concat();
        assert_eq!(chunks(&both), Ok((body.len(), true)));
        let mut slow = Framing::Chunked(Chunks::default());
        for byte in body {
            assert!(!slow.is_over());
            assert_eq!(slow.follow(&[*byte]), Ok(1));
        }
        assert!(slow.is_over());
        let mut length = Framing::Length(3);
        assert_eq!((length.follow(b"abcdef"), length.is_over()), (Ok(3), true));
    }

    #[test]
    fn odd_chunks_are_refused() {
        for body in [
            "5\nhello\r\n",
            "\r\n",
            "+5\r\n",
            "0x5\r\n",
            " 5\r\n",
            "5 \r\n",
            "5\r\nhelloX",
            "5\r\nhello\rX",
            "g\r\n",
            "FFFFFFFFFFFFFFFF0\r\n",
            "0\r\n\n",
            "0\r\n folded: x\r\n",
            "0\r\nno colon\r\n",
            "0\r\nX: y\n\r\n",
            "5;\0\r\n",
            "5;a\nb\r\n",
        ] {
            assert!(chunks(body.as_bytes()).is_err(), "{body:?}");
        }
        assert!(chunks(format!("5;{}", "a".repeat(20_000)).as_bytes()).is_err());
    }
}
