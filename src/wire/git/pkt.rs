//! pkt-lines (gitprotocol-common): four hex digits of length, then the payload.

/// LARGE_PACKET_MAX: git refuses longer ones.
const LONGEST: usize = 65_520;

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pkt<'a> {
    /// A payload, with its one trailing LF removed if it has one.
    Line(&'a [u8]),
    /// `0000`.
    Flush,
    /// `0001`.
    Delim,
}

/// Why there is no next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The bytes end in the middle of a frame, or between two.
    Short,
    /// Not a pkt-line.
    Malformed(&'static str),
}

/// Frames from the beginning of a body.
pub(super) struct Pkts<'a> {
    rest: &'a [u8],
}

impl<'a> Pkts<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Pkts<'a> {
        Pkts { rest: bytes }
    }

    /// What has not been read.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next frame.
    pub(super) fn next(&mut self) -> Result<Pkt<'a>, Stop> {
        let (head, behind) = self.rest.split_at_checked(4).ok_or_else(|| short_or_malformed(self.rest))?;
        let length = head.iter().try_fold(0, |length, byte| Some(length << 4 | hex(*byte)?));
        let (pkt, behind) = match length.ok_or(NOT_HEX)? {
            0 => (Pkt::Flush, behind),
            1 => (Pkt::Delim, behind),
            length @ 5..=LONGEST => {
                let (line, behind) = behind.split_at_checked(length - 4).ok_or(Stop::Short)?;
                (Pkt::Line(line.strip_suffix(b"\n").unwrap_or(line)), behind)
            }
            // 0002 ends responses, 0003 is nothing, 0004 an empty line that git never sends.
            _ => return Err(Stop::Malformed("a pkt-line with a length that no request has")),
        };
        self.rest = behind;
        Ok(pkt)
    }
}

const NOT_HEX: Stop = Stop::Malformed("a pkt-line whose length is not four hex digits");

/// Says at once that the bytes are no pkt-lines, rather than waiting for more of them.
fn short_or_malformed(bytes: &[u8]) -> Stop {
    if bytes.iter().all(|byte| hex(*byte).is_some()) { Stop::Short } else { NOT_HEX }
}

fn hex(byte: u8) -> Option<usize> {
    crate::facts::percent::hex_digit(byte).map(usize::from)
}
