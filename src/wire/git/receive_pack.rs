//! `git-receive-pack`: a push.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::pkt::{Pkt, Pkts};
use super::{Unread, capabilities, count, decoded, map, object_id, strings, text};
use crate::facts::{Key, Term};
use crate::wire::Decoded;

/// Reads the ref updates in front of a pack:
///
/// ```text
/// {"kind": "receive-pack", "updates": [{"ref", "old", "new", "kind", "create", "delete"}], "update_count",
///  "capabilities": […], "push_options": […], "signed": false}
/// ```
///
/// `kind` of an update is `create`, `update` or `delete`; `create` and `delete` say the same as booleans,
/// which published manifests read. An empty list of updates is the probe that git sends before a large
/// push; nothing may stand behind it.
pub(in crate::wire) fn receive_pack(bytes: &[u8], all: bool, max_nodes: usize) -> Decoded {
    decoded(read(bytes, all, max_nodes), all)
}

const NODES_OF_AN_UPDATE: usize = 6;

/// One line of the command list.
struct Update<'a> {
    old: &'a str,
    new: &'a str,
    name: &'a str,
    kind: &'static str,
}

fn read(bytes: &[u8], all: bool, max_nodes: usize) -> Result<Term, Unread> {
    let mut pkts = Pkts::new(bytes);
    let mut updates: Vec<Update<'_>> = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    let mut names = HashSet::new();
    loop {
        let line = match pkts.next()? {
            Pkt::Flush => break,
            Pkt::Delim => return Err(Unread::Wrong("a delimiter in a command list")),
            Pkt::Line(line) => line,
        };
        if let Some(id) = line.strip_prefix(b"shallow ") {
            if !updates.is_empty() {
                return Err(Unread::Wrong("a shallow line behind a command"));
            }
            object_id(id)?;
            continue;
        }
        let (line, features) = match line.iter().position(|byte| *byte == 0) {
            Some(at) => line.split_at_checked(at).ok_or(Unread::Short)?,
            None => (line, &b""[..]),
        };
        if line == b"push-cert" {
            return Err(Unread::Wrong("a signed push, which is not read here: push without --signed"));
        }
        if let Some(list) = features.get(1..) {
            // git takes capabilities from any line, other servers from the first only.
            if !updates.is_empty() {
                return Err(Unread::Wrong("capabilities behind the first command"));
            }
            words = capabilities(list)?;
        }
        let update = command(line)?;
        if !names.insert(update.name) {
            return Err(Unread::Wrong("two commands for one ref"));
        }
        updates.push(update);
        if updates.len() * NODES_OF_AN_UPDATE > max_nodes {
            return Err(Unread::TooMany);
        }
    }
    check_format(&updates, &words)?;
    if updates.is_empty() && !pkts.rest().is_empty() {
        return Err(Unread::Wrong("bytes behind an empty command list"));
    }
    if updates.is_empty() && !all {
        return Err(Unread::Short);
    }
    let options = if words.contains(&"push-options") { push_options(&mut pkts)? } else { Vec::new() };
    if updates.len() * NODES_OF_AN_UPDATE + words.len() + options.len() + 3 > max_nodes {
        return Err(Unread::TooMany);
    }
    Ok(tree(&updates, &words, &options))
}

/// `old SP new SP name`.
fn command(line: &[u8]) -> Result<Update<'_>, Unread> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut word = || words.next().ok_or(Unread::Wrong("a command without its three words"));
    let (old, new, name) = (object_id(word()?)?, object_id(word()?)?, ref_name(word()?)?);
    if old.len() != new.len() {
        return Err(Unread::Wrong("object ids of two kinds"));
    }
    let kind = match (is_zero(old), is_zero(new)) {
        (true, true) => return Err(Unread::Wrong("a command that neither writes nor deletes")),
        (true, false) => "create",
        (false, true) => "delete",
        (false, false) => "update",
    };
    Ok(Update { old, new, name, kind })
}

fn is_zero(id: &str) -> bool {
    id.bytes().all(|byte| byte == b'0')
}

/// A name that `git check-ref-format` accepts; git's server refuses all others itself.
fn ref_name(bytes: &[u8]) -> Result<&str, Unread> {
    let wrong = Unread::Wrong("a ref name that git doesn't allow");
    let name = text(bytes).map_err(|_| wrong)?;
    let odd = |c: char| matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let component = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    if name == "@"
        || name.contains(odd)
        || name.contains("..")
        || name.contains("@{")
        || name.ends_with('.')
        || name.split('/').any(component)
    {
        return Err(wrong);
    }
    Ok(name)
}

/// Ids are all of the kind that `object-format` says, SHA-1 unless it does.
fn check_format(updates: &[Update<'_>], words: &[&str]) -> Result<(), Unread> {
    let mut formats = words.iter().filter_map(|word| word.strip_prefix("object-format="));
    let length = match (formats.next(), formats.next()) {
        (None | Some("sha1"), None) => 40,
        (Some("sha256"), None) => 64,
        _ => return Err(Unread::Wrong("an object format other than sha1 and sha256")),
    };
    if updates.iter().any(|update| update.new.len() != length) {
        return Err(Unread::Wrong("object ids of two kinds"));
    }
    Ok(())
}

/// The section behind the commands, up to its flush.
fn push_options<'a>(pkts: &mut Pkts<'a>) -> Result<Vec<&'a str>, Unread> {
    let mut options = Vec::new();
    loop {
        match pkts.next()? {
            Pkt::Flush => return Ok(options),
            Pkt::Delim => return Err(Unread::Wrong("a delimiter among push options")),
            Pkt::Line(line) => options.push(text(line)?),
        }
    }
}

fn tree(updates: &[Update<'_>], words: &[&str], options: &[&str]) -> Term {
    let keys = ["create", "delete", "kind", "new", "old", "ref"].map(|key| Key::Str(key.into()));
    let kinds = ["create", "delete", "update"].map(Arc::<str>::from);
    let shared = |kind: &str| kinds.iter().find(|shared| ***shared == *kind).cloned().unwrap_or_else(|| kind.into());
    let one = |update: &Update<'_>| {
        let values = [
            (update.kind == "create").into(),
            (update.kind == "delete").into(),
            Term::Str(shared(update.kind)),
            update.new.into(),
            update.old.into(),
            update.name.into(),
        ];
        Term::Map(Arc::new(keys.iter().cloned().zip(values).collect::<BTreeMap<_, _>>()))
    };
    map([
        ("kind", "receive-pack".into()),
        ("updates", Term::Array(updates.iter().map(one).collect())),
        ("update_count", count(updates.len())),
        ("capabilities", strings(words)),
        ("push_options", strings(options)),
        ("signed", false.into()),
    ])
}
