//! `git-upload-pack`: a clone or a fetch.

use super::pkt::{Pkt, Pkts};
use super::{Unread, capabilities, count, decoded, map, object_id, strings, text};
use crate::facts::Term;
use crate::wire::Decoded;

/// Reads what is asked for:
///
/// ```text
/// {"kind": "upload-pack" | "v2", "command": "fetch" | "ls-refs" | …, "wants": […], "want_count",
///  "want_refs": […], "ref_prefixes": […], "args": […], "capabilities": […]}
/// ```
///
/// What the client has (`have`, `shallow`) says nothing about what it gets and can be thousands of lines:
/// it is checked and left out. The rest of the lines (`filter …`, `deepen …`, `done`) is in `args`. In the
/// older protocol `command` is `fetch` and only the first section, which holds all wants, is read.
pub(in crate::wire) fn upload_pack(bytes: &[u8], all: bool, max_nodes: usize) -> Decoded {
    decoded(read(bytes, max_nodes), all)
}

/// What has been read so far.
#[derive(Default)]
struct Asked<'a> {
    command: Option<&'a str>,
    wants: Vec<&'a str>,
    want_refs: Vec<&'a str>,
    ref_prefixes: Vec<&'a str>,
    args: Vec<&'a str>,
    capabilities: Vec<&'a str>,
}

fn read(bytes: &[u8], max_nodes: usize) -> Result<Term, Unread> {
    let mut pkts = Pkts::new(bytes);
    let mut asked = Asked::default();
    let first = pkts.next()?;
    // A request of version 2 begins with a command or a capability, one of version 0 with what is wanted.
    let v2 = matches!(first, Pkt::Line(line) if !is_v0_line(line));
    if v2 {
        read_v2(first, &mut pkts, &mut asked, max_nodes)?
    } else {
        read_v0(first, &mut pkts, &mut asked, max_nodes)?
    }
    asked.check(max_nodes)?;
    Ok(asked.tree(if v2 { "v2" } else { "upload-pack" }))
}

fn is_v0_line(line: &[u8]) -> bool {
    [&b"want "[..], b"shallow ", b"deepen", b"filter "].iter().any(|prefix| line.starts_with(prefix))
}

fn read_v0<'a>(mut pkt: Pkt<'a>, pkts: &mut Pkts<'a>, asked: &mut Asked<'a>, max: usize) -> Result<(), Unread> {
    asked.command = Some("fetch");
    loop {
        match pkt {
            Pkt::Flush => return Ok(()),
            Pkt::Delim => return Err(Unread::Wrong("a delimiter in a request of version 0")),
            Pkt::Line(line) => match line.strip_prefix(b"want ") {
                Some(want) => asked.want_v0(want)?,
                None if is_v0_line(line) => asked.argument(line)?,
                None => return Err(Unread::Wrong("a line that is no want")),
            },
        }
        asked.check(max)?;
        pkt = pkts.next()?;
    }
}

fn read_v2<'a>(first: Pkt<'a>, pkts: &mut Pkts<'a>, asked: &mut Asked<'a>, max: usize) -> Result<(), Unread> {
    let mut pkt = first;
    loop {
        match pkt {
            Pkt::Line(line) => asked.key(line)?,
            Pkt::Flush => return asked.command.map(|_| ()).ok_or(Unread::Wrong("a request without a command")),
            Pkt::Delim => break,
        }
        asked.check(max)?;
        pkt = pkts.next()?;
    }
    if asked.command.is_none() {
        return Err(Unread::Wrong("a request without a command"));
    }
    loop {
        match pkts.next()? {
            Pkt::Line(line) => asked.argument(line)?,
            Pkt::Flush => return Ok(()),
            Pkt::Delim => return Err(Unread::Wrong("two delimiters")),
        }
        asked.check(max)?;
    }
}

impl<'a> Asked<'a> {
    fn check(&self, max_nodes: usize) -> Result<(), Unread> {
        let lists = [&self.wants, &self.want_refs, &self.ref_prefixes, &self.args, &self.capabilities];
        let nodes = 3 + lists.iter().map(|list| list.len().max(1)).sum::<usize>();
        if nodes > max_nodes { Err(Unread::TooMany) } else { Ok(()) }
    }

    /// `id SP capabilities`; the first want has them, and no other.
    fn want_v0(&mut self, want: &'a [u8]) -> Result<(), Unread> {
        let (id, features) = match want.iter().position(|byte| *byte == b' ') {
            Some(at) => want.split_at_checked(at).unwrap_or((want, b"")),
            None => (want, &b""[..]),
        };
        let words = capabilities(features)?;
        if !words.is_empty() && !self.wants.is_empty() {
            return Err(Unread::Wrong("capabilities behind the first want"));
        }
        self.capabilities.extend(words);
        self.wants.push(object_id(id)?);
        Ok(())
    }

    /// A line in front of the delimiter: the command, or a capability.
    fn key(&mut self, line: &'a [u8]) -> Result<(), Unread> {
        let line = text(line)?;
        match line.strip_prefix("command=") {
            Some(command) => {
                let plain = !command.is_empty() && command.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
                if !plain || self.command.replace(command).is_some() {
                    return Err(Unread::Wrong("a command that is none, or two"));
                }
            }
            None if line.starts_with("want ") || line.starts_with("have ") => {
                return Err(Unread::Wrong("an argument in front of the delimiter"));
            }
            None => self.capabilities.push(line),
        }
        Ok(())
    }

    /// A line behind the delimiter, or one of version 0 that is no want.
    fn argument(&mut self, line: &'a [u8]) -> Result<(), Unread> {
        let line = text(line)?;
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "want" => self.wants.push(object_id(rest.as_bytes())?),
            "have" | "shallow" => {
                object_id(rest.as_bytes())?;
            }
            "want-ref" => self.want_refs.push(rest),
            "ref-prefix" => self.ref_prefixes.push(rest),
            _ => self.args.push(line),
        }
        Ok(())
    }

    fn tree(&self, kind: &'static str) -> Term {
        map([
            ("kind", kind.into()),
            ("command", self.command.unwrap_or_default().into()),
            ("wants", strings(&self.wants)),
            ("want_count", count(self.wants.len())),
            ("want_refs", strings(&self.want_refs)),
            ("ref_prefixes", strings(&self.ref_prefixes)),
            ("args", strings(&self.args)),
            ("capabilities", strings(&self.capabilities)),
        ])
    }
}
