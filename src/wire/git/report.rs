//! Telling a push no in git's own words.
//!
//! git shows the body of a refused `GET …/info/refs` (if it is `text/plain`) and drops that of a refused
//! `POST …/git-receive-pack`: its user would read "HTTP 403" and nothing else. So a refused push is
//! answered as a server with a hook that refuses would answer it: each line of the reason on the progress
//! channel (git prints `remote: …`), and `ng` for every ref (gitprotocol-pack, report-status).

use std::sync::Arc;

use crate::facts::{Term, lookup};

/// Bytes of a packet of the side band: 65520 less its length and channel.
const MAX_PACKET: usize = 65_515;

/// What a refused push needs to know of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushReport {
    refs: Vec<Arc<str>>,
    side_band: bool,
}

impl PushReport {
    /// From a decoded push. `None` if its sender asks for no report, or writes no ref.
    pub fn of(push: &Term) -> Option<PushReport> {
        let Term::Array(updates) = lookup(push, &["updates"])? else { return None };
        let Term::Array(words) = lookup(push, &["capabilities"])? else { return None };
        let asks = |word: &str| words.iter().any(|one| one.as_str() == Some(word));
        let reports = asks("report-status") || asks("report-status-v2");
        let refs: Vec<Arc<str>> =
            updates.iter().filter_map(|one| lookup(one, &["ref"])?.as_str().map(Arc::from)).collect();
        let all_named = !refs.is_empty() && refs.len() == updates.len();
        (reports && all_named).then(|| PushReport { refs, side_band: asks("side-band-64k") })
    }

    /// The answer's body. `why` stands behind each ref, `text` is for the user.
    pub fn render(&self, why: &str, text: &str) -> Vec<u8> {
        let mut report = Vec::new();
        packet(&mut report, b"unpack ok\n");
        for name in &self.refs {
            packet(&mut report, format!("ng {name} {why}\n").as_bytes());
        }
        report.extend_from_slice(b"0000");
        if !self.side_band {
            return report;
        }
        let mut answer = Vec::new();
        for line in text.lines() {
            band(&mut answer, 2, format!("{line}\n").as_bytes());
        }
        band(&mut answer, 1, &report);
        answer.extend_from_slice(b"0000");
        answer
    }
}

/// A packet line: four hex digits of length, which counts them, then the bytes.
fn packet(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend_from_slice(format!("{:04x}", bytes.len() + 4).as_bytes());
    into.extend_from_slice(bytes);
}

/// As many packets of a side band as the bytes take.
fn band(into: &mut Vec<u8>, channel: u8, bytes: &[u8]) {
    for part in bytes.chunks(MAX_PACKET) {
        let mut framed = vec![channel];
        framed.extend_from_slice(part);
        packet(into, &framed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Bounds, Decoded, Decoder, decode};

    fn push(capabilities: &str) -> Term {
        let zero = "0".repeat(40);
        let line = format!("{zero} {} refs/heads/main\0{capabilities}", "1".repeat(40));
        let mut bytes = Vec::new();
        packet(&mut bytes, line.as_bytes());
        bytes.extend_from_slice(b"0000PACK");
        let media = "application/x-git-receive-pack-request";
        match decode(&Decoder::GitReceivePack, media, "", &bytes, true, &Bounds::default()) {
            Decoded::Ready(tree) => tree,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn r86_a_refused_push_is_told_why_on_the_progress_channel_and_every_ref_is_ng() {
        let report = PushReport::of(&push(" report-status side-band-64k")).unwrap();
        let body = String::from_utf8(report.render("policy_denied", "kleis: no\nrequest: 1")).unwrap();
        assert_eq!(
            body,
            "000f\u{2}kleis: no\n0010\u{2}request: 1\n003c\u{1}000eunpack ok\n0025ng refs/heads/main policy_denied\n00000000"
        );
    }

    #[test]
    fn a_sender_without_report_status_gets_none() {
        assert_eq!(PushReport::of(&push(" side-band-64k")), None);
        assert_eq!(PushReport::of(&Term::from("text")), None);
    }
}
