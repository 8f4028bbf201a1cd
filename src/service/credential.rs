//! `[credential]`: where a secret may go, how it is put there, and what of the client's is taken off.

use std::sync::Arc;

use super::Service;
use super::capture::is_token;
use super::injection::{Injection, Piece, SecretTemplate, Target};
use super::load::Claims;
use crate::words::strict_toml::{Table, Value};
use crate::words::{Authority, HostPattern};

/// What `[credential]` says.
#[derive(Debug, Default)]
pub(super) struct CredentialRules {
    pub(super) provider: Option<Arc<str>>,
    pub(super) hosts: Vec<HostPattern>,
    pub(super) keep_cookies: bool,
    pub(super) strip_headers: Vec<Arc<str>>,
    pub(super) strip_query: Vec<Arc<str>>,
    pub(super) injections: Vec<Injection>,
}

/// Kinds of credentials (DESIGN §13).
const KINDS: &[(&str, &str)] = &[("api_key", "api_key"), ("oauth", "oauth")];
const KEYS: &[&str] = &["provider", "hosts", "strip", "keep_cookies", "cleartext", "inject"];
const INJECT_KEYS: &[&str] = &["hosts", "kind", "name", "segment", "template", "when", "cleartext"];

impl CredentialRules {
    /// Reads `[credential]`; without it there is nothing to inject.
    pub(super) fn read(value: &Value<'_>, claims: &Claims<'_>) -> Option<CredentialRules> {
        let table = value.table(KEYS)?;
        let provider = table.get("provider").and_then(|value| value.nonempty()).map(Arc::from);
        let keep_cookies = table.get("keep_cookies").and_then(|value| value.boolean()).unwrap_or(false);
        let cleartext = table.get("cleartext").and_then(|value| value.boolean()).unwrap_or(false);
        let mut rules = CredentialRules { provider, keep_cookies, ..CredentialRules::default() };
        if let Some(value) = table.get("strip") {
            rules.read_strip(&value, keep_cookies);
        }
        let list = table.get("inject").and_then(|value| value.list()).unwrap_or_default();
        let drafts: Vec<_> = list.iter().filter_map(|value| Some((value, read_injection(value, cleartext)?))).collect();
        rules.hosts = match table.get("hosts") {
            Some(value) => claims.hosts(&value)?,
            None => default_hosts(&drafts, claims),
        };
        for (value, draft) in drafts {
            rules.add(value, draft);
        }
        rules.check_claimed(&table, claims);
        Some(rules)
    }

    fn read_strip(&mut self, value: &Value<'_>, keep_cookies: bool) {
        for entry in value.list().unwrap_or_default() {
            let Some(text) = entry.string() else { continue };
            match text.strip_prefix("query:") {
                Some("") => entry.complain("`query:` names no key"),
                Some(key) => self.strip_query.push(key.into()),
                None if !is_token(text) => {
                    entry.complain(format!("`{text}` is not a header: use its name, or `query:KEY`"))
                }
                None if keep_cookies && text.eq_ignore_ascii_case("cookie") => {
                    entry.complain("`cookie` is stripped here and kept by `keep_cookies`");
                }
                None => match reserved_header(&text.to_ascii_lowercase()) {
                    Some(why) => entry.complain(format!("`{text}` can't be stripped: {why}")),
                    None => self.strip_headers.push(text.to_ascii_lowercase().into()),
                },
            }
        }
    }

    /// Adds a rule, unless its hosts are not ones where a secret may go, or it ties with another (R57).
    fn add(&mut self, value: &Value<'_>, draft: Draft) {
        let hosts: Arc<[HostPattern]> = draft.hosts.unwrap_or_else(|| self.hosts.clone()).into();
        let injection = Injection { hosts, ..draft.injection };
        if let Some(outside) =
            injection.hosts.iter().find(|host| !self.hosts.iter().any(|allowed| allowed.covers(host)))
        {
            value.complain(format!("`{outside}` is not in `credential.hosts`: a secret may not go there"));
            return;
        }
        if let Some((host, target)) = self.injections.iter().find_map(|other| tie(other, &injection)) {
            value.complain(format!(
                "two injections fill {target} at `{host}`: an exact host beats a wildcard, equals tie"
            ));
            return;
        }
        self.injections.push(injection);
    }

    fn check_claimed(&self, table: &Table<'_>, claims: &Claims<'_>) {
        for host in &self.hosts {
            if !claims.claims.iter().any(|claim| claim.covers(host) || host.covers(claim)) {
                let message = format!("`{host}` is in `credential.hosts` and not in `hosts`: nothing is sent there");
                claims.warn(table.get("hosts").as_ref(), message);
            }
        }
        for injection in self.injections.iter().filter(|injection| injection.allows_cleartext()) {
            let message =
                format!("{} may be sent in clear text: anybody on the way can read the secret", injection.target());
            claims.warn(table.get("inject").as_ref(), message);
        }
    }
}

/// An injection whose hosts may not be known yet.
struct Draft {
    hosts: Option<Vec<HostPattern>>,
    injection: Injection,
}

/// Without `credential.hosts`: what the injections name; all claimed hosts if one of them names none.
fn default_hosts(drafts: &[(&Value<'_>, Draft)], claims: &Claims<'_>) -> Vec<HostPattern> {
    let mut hosts: Vec<HostPattern> = Vec::new();
    for (_, draft) in drafts {
        let Some(named) = &draft.hosts else { return claims.claims.to_vec() };
        hosts.extend(named.iter().cloned());
    }
    hosts.sort();
    hosts.dedup();
    hosts
}

fn read_injection(value: &Value<'_>, cleartext: bool) -> Option<Draft> {
    let table = value.table(INJECT_KEYS)?;
    let kind = table.required("kind").and_then(|kind| {
        kind.one_of(&[("header", "header"), ("query", "query"), ("basic", "basic"), ("path", "path")])
    });
    let hosts = match table.get("hosts") {
        Some(value) => Some(super::load::host_list(&value)?),
        None => None,
    };
    let template = table.required("template").and_then(|value| value.parse(SecretTemplate::parse));
    let when = table.get("when").and_then(|value| value.one_of(KINDS)).map(Arc::from);
    let cleartext = table.get("cleartext").map_or(Some(cleartext), |value| value.boolean());
    let kind = kind?;
    let target = read_target(&table, kind)?;
    let template = template?;
    if !template.has_secret() && kind != "header" && kind != "query" {
        table.complain(format!("a template of kind `{kind}` has `{{{{secret}}}}` in it"));
        return None;
    }
    let injection =
        Injection { hosts: Arc::from([]), target, basic: kind == "basic", template, when, cleartext: cleartext? };
    Some(Draft { hosts, injection })
}

fn read_target(table: &Table<'_>, kind: &str) -> Option<Target> {
    let (name, segment) = (table.get("name"), table.get("segment"));
    let misplaced = if kind == "path" { name.as_ref() } else { segment.as_ref() };
    let misplaced = misplaced.or(if kind == "basic" { name.as_ref() } else { None });
    if let Some(value) = misplaced {
        value.complain(format!("`{}` means nothing for kind `{kind}`", value.name()));
        return None;
    }
    match kind {
        "basic" => Some(Target::Header("authorization".into())),
        "path" => {
            let index = table.required("segment")?.integer(0..=63)?;
            Some(Target::Segment(usize::try_from(index).ok()?))
        }
        "query" => table.required("name")?.nonempty().map(|name| Target::Query(name.into())),
        _ => table.required("name")?.parse(header_name).map(Target::Header),
    }
}

fn header_name(name: &str) -> Result<Arc<str>, String> {
    let lower = name.to_ascii_lowercase();
    if !is_token(name) {
        return Err(format!("`{name}` is not a header's name"));
    }
    match reserved_header(&lower) {
        Some(why) => Err(format!("`{name}` can't be set by a manifest: {why}")),
        None => Ok(lower.into()),
    }
}

/// R62: fields that say where a request goes, how long it is, or who the hop is.
fn reserved_header(lower: &str) -> Option<&'static str> {
    match lower {
        "host" => Some("it is made from the authority"),
        "content-length" | "transfer-encoding" | "content-encoding" | "trailer" | "expect" => {
            Some("the framing is made by the proxy")
        }
        "connection" | "keep-alive" | "te" | "upgrade" | "http2-settings" => Some("it belongs to one hop"),
        "forwarded" | "via" => Some("the proxy takes it off"),
        _ if lower.starts_with("proxy-") => Some("it belongs to the hop to the proxy"),
        _ if lower.starts_with("x-kleis-") => Some("it belongs to kleis"),
        _ if lower.starts_with("x-forwarded-") => Some("the proxy takes it off"),
        _ => None,
    }
}

/// Whether two injections could both win the same place of the same request.
fn tie<'i>(a: &Injection, b: &'i Injection) -> Option<(&'i HostPattern, &'i Target)> {
    let same_kind = a.when.is_none() || b.when.is_none() || a.when == b.when;
    if a.target != b.target || !same_kind {
        return None;
    }
    b.hosts.iter().find(|host| a.hosts.contains(host)).map(|host| (host, &b.target))
}

impl SecretTemplate {
    /// Parses text with `{{secret}}` in it.
    pub fn parse(text: &str) -> Result<SecretTemplate, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("{{") {
            let (inside, after) =
                behind.split_once("}}").ok_or_else(|| format!("`{text}` has a `{{{{` without its `}}}}`"))?;
            if inside.trim() != "secret" {
                return Err(format!("`{{{{{inside}}}}}` is not known in this template: it has `{{{{secret}}}}`"));
            }
            push_literal(&mut pieces, before)?;
            pieces.push(Piece::Secret);
            rest = after;
        }
        push_literal(&mut pieces, rest)?;
        if pieces.is_empty() {
            return Err("the template is empty".to_owned());
        }
        Ok(SecretTemplate { pieces })
    }
}

fn push_literal(pieces: &mut Vec<Piece>, text: &str) -> Result<(), String> {
    if !text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return Err("a template has visible ASCII characters and spaces only".to_owned());
    }
    if !text.is_empty() {
        pieces.push(Piece::Literal(text.into()));
    }
    Ok(())
}

impl Service {
    /// What is injected at this authority for a credential of this kind: for each place of the request the
    /// rule with the most specific host. Empty where no secret goes, and on clear text without opt-in.
    pub fn injections(&self, authority: &Authority, kind: &str) -> Vec<&Injection> {
        let mut chosen: Vec<(usize, &Injection)> = Vec::new();
        if !self.may_send_secret_to(authority) {
            return Vec::new();
        }
        for injection in self.injections.iter().filter(|one| one.when().is_none_or(|when| when == kind)) {
            let Some(specificity) = injection.specificity(authority) else { continue };
            match chosen.iter_mut().find(|(_, other)| other.target() == injection.target()) {
                Some(other) if other.0 < specificity => *other = (specificity, injection),
                Some(_) => {}
                None => chosen.push((specificity, injection)),
            }
        }
        chosen.into_iter().map(|(_, injection)| injection).collect()
    }

    /// Whether a client's header of that (lower-case) name is taken off: credentials, cookies unless kept,
    /// what the manifest lists, and whatever an injection fills anywhere (invariant 5).
    pub fn strips_header(&self, name: &str) -> bool {
        // `_` and `-` are one character to servers that hand headers on as CGI variables
        let is = |header: &str| same_header(header, name);
        let begins = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| same_header(prefix, start));
        is("authorization")
            || begins("proxy-")
            || begins("x-kleis-")
            || (is("cookie") && !self.keep_cookies)
            || self.strip_headers.iter().any(|header| is(header))
            || self.injections.iter().any(|one| matches!(one.target(), Target::Header(header) if is(header)))
    }

    /// Whether a query key is taken off: what the manifest lists, and whatever an injection fills there.
    pub fn strips_query(&self, authority: &Authority, key: &str) -> bool {
        let fills = |injection: &Injection| {
            matches!(injection.target(), Target::Query(name) if &**name == key)
                && injection.hosts.iter().any(|host| host.matches(authority))
        };
        self.strip_query.iter().any(|one| &**one == key) || self.injections.iter().any(fills)
    }
}

fn same_header(header: &str, name: &str) -> bool {
    let same = |(h, n): (u8, u8)| h == n || (h == b'-' && n == b'_') || (h == b'_' && n == b'-');
    header.len() == name.len() && header.bytes().zip(name.bytes()).all(same)
}
