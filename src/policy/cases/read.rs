//! Reading a test file.

use std::fmt::Display;

use super::{Case, CaseFile, Described, Expect, pack};
use crate::facts::Fact;
use crate::policy::allow::AllowLine;
use crate::service::Place;
use crate::token::{Candidates, parse_facts};
use crate::words::strict_toml::{self, Table, Value};
use crate::words::{CredentialName, FileErrors, GrantName, Reason, SpecName, Timestamp, nearest};

const KEYS: [&str; 9] = ["grant", "grants", "spec", "bearer", "facts", "narrow", "time", "cases", "case"];
const CASE_KEYS: [&str; 13] = [
    "name",
    "request",
    "expect",
    "reason",
    "credential",
    "account",
    "facts",
    "headers",
    "client",
    "body",
    "json",
    "push",
    "graphql",
];
/// Of which a case has at most one.
const BODIES: [&str; 4] = ["body", "json", "push", "graphql"];

impl CaseFile {
    /// Reads a test file; all that is wrong comes at once.
    pub fn parse(text: &str, file: &str) -> Result<CaseFile, FileErrors> {
        strict_toml::read(text, file, &KEYS, |root| {
            let candidates = candidates(&root);
            let short = root.get("cases").and_then(|value| value.list()).unwrap_or_default();
            let mut cases: Vec<Case> =
                short.iter().filter_map(|value| value.parse(one_line).and_then(|case| placed(value, case))).collect();
            cases.extend(root.tables("case", &CASE_KEYS).iter().filter_map(long));
            if cases.is_empty() && root.get("cases").is_none() && root.get("case").is_none() {
                root.complain("there is no case: use `cases = [\"allow GET https://…\"]` or `[[case]]`");
            }
            let narrow = root
                .get("narrow")
                .and_then(|value| value.parse_list(|line| AllowLine::parse(line).map(|line| line.to_string())));
            Some(CaseFile {
                candidates: candidates?,
                bearer: root.get("bearer").and_then(|value| value.nonempty()).unwrap_or("test").to_owned(),
                facts: facts(&root),
                narrow: narrow.unwrap_or_default(),
                time: root.get("time").and_then(|value| value.parse(time)),
                cases,
                file: file.to_owned(),
            })
        })
    }
}

fn candidates(root: &Table<'_>) -> Option<Candidates> {
    let given = ["grant", "grants", "spec"].iter().filter(|key| root.get(key).is_some()).count();
    if given != 1 {
        root.complain("name what is tested in one of `grant`, `grants` and `spec`");
        return None;
    }
    if let Some(value) = root.get("spec") {
        return value.parse(SpecName::parse).map(Candidates::Spec);
    }
    if let Some(value) = root.get("grant") {
        return value.parse(GrantName::parse).map(|name| Candidates::Grants(vec![name]));
    }
    root.get("grants")?.parse_list(GrantName::parse).map(Candidates::Grants)
}

fn facts(table: &Table<'_>) -> Vec<Fact> {
    let lists = table.get("facts").and_then(|value| value.parse_list(parse_facts)).unwrap_or_default();
    lists.into_iter().flatten().collect()
}

fn time(text: &str) -> Result<Timestamp, String> {
    let parsed = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339);
    let seconds = parsed.ok().and_then(|time| Timestamp::try_from(time.unix_timestamp()).ok());
    seconds.ok_or_else(|| format!("`{text}` is not a time: use \"2026-11-30T12:00:00Z\""))
}

fn placed(value: &Value<'_>, case: Case) -> Option<Case> {
    let (line, column) = value.place_within(0);
    Some(Case { place: Place { line, column }, ..case })
}

/// `allow METHOD URL [push REF… | json TEXT | graphql QUERY]`
fn one_line(text: &str) -> Result<Case, String> {
    let (expect, rest) = word(text);
    let expect = match expect {
        "allow" => Expect::Allow(None),
        "deny" => Expect::Deny(None),
        _ => return Err(format!("`{expect}` begins no case: use `allow` or `deny`, a method and a URL")),
    };
    let (method, rest) = word(rest);
    let (url, rest) = word(rest);
    let mut request = Described::parse(method, url).map_err(|error| error.to_string())?;
    let (kind, rest) = word(rest);
    match kind {
        "" => {}
        "push" => request.body(pack::MEDIA, pack::body(rest.split_whitespace())?),
        "json" => {
            serde_json::from_str::<serde_json::Value>(rest)
                .map_err(|error| format!("what follows `json` is not JSON: {error}"))?;
            request.body("application/json", rest);
        }
        "graphql" => request.body("application/json", graphql(rest)),
        _ => {
            let hint = nearest(kind, ["push", "json", "graphql"]).map(|near| format!(" (did you mean `{near}`?)"));
            return Err(format!("`{kind}` is no body: use `push`, `json` or `graphql`{}", hint.unwrap_or_default()));
        }
    }
    let name = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(Case { name, place: Place { line: 1, column: 1 }, request, facts: Vec::new(), account: None, expect })
}

/// The first word, and the rest.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim()),
        None => (text, ""),
    }
}

fn graphql(query: &str) -> String {
    serde_json::json!({ "query": query }).to_string()
}

/// `[[case]]`
fn long(table: &Table<'_>) -> Option<Case> {
    let given = table.required("request")?;
    let mut request = given.parse(|text| {
        let (method, url) = word(text);
        Described::parse(method, url)
    })?;
    headers(table, &mut request);
    body(table, &mut request);
    request.client = table.get("client").and_then(|value| {
        value.parse(|text| text.parse::<std::net::IpAddr>().map_err(|_| format!("`{text}` is not an address")))
    });
    let expect = expect(table)?;
    let (line, column) = given.place_within(0);
    Some(Case {
        name: table
            .get("name")
            .and_then(|value| value.nonempty())
            .map_or_else(|| given.string().unwrap_or_default().to_owned(), str::to_owned),
        place: Place { line, column },
        facts: facts(table),
        account: table.get("account").and_then(|value| value.nonempty()).map(str::to_owned),
        request,
        expect,
    })
}

fn expect(table: &Table<'_>) -> Option<Expect> {
    let allow = table.required("expect")?.one_of(&[("allow", true), ("deny", false)])?;
    let credential = table.get("credential").and_then(|value| value.parse(CredentialName::parse));
    let reason = table.get("reason").and_then(|value| value.parse(reason));
    match allow {
        true if table.get("reason").is_some() => {
            table.complain_about_key("reason", "what is allowed has no `reason`");
            None
        }
        false if table.get("credential").is_some() => {
            table.complain_about_key("credential", "what is denied spends no `credential`");
            None
        }
        true => Some(Expect::Allow(credential)),
        false => Some(Expect::Deny(reason)),
    }
}

fn reason(text: &str) -> Result<Reason, String> {
    Reason::ALL.iter().copied().find(|reason| reason.code() == text).ok_or_else(|| {
        let near = nearest(text, Reason::ALL.iter().map(|reason| reason.code()));
        let hint =
            near.map_or_else(|| "use one such as `policy_denied`".to_owned(), |near| format!("did you mean `{near}`?"));
        format!("`{text}` is not a reason: {hint}")
    })
}

fn headers(table: &Table<'_>, request: &mut Described) {
    let Some(headers) = table.get("headers").and_then(|value| value.open_table()) else {
        return;
    };
    for (name, value) in headers.entries() {
        if let Some(text) = value.string() {
            told(&value, request.header(name, text));
        }
    }
}

fn body(table: &Table<'_>, request: &mut Described) {
    if BODIES.iter().filter(|key| table.get(key).is_some()).count() > 1 {
        table.complain("a request has one body: keep one of `body`, `json`, `push` and `graphql`");
    }
    if let Some(text) = table.get("body").and_then(|value| value.string()) {
        request.body("", text);
    }
    if let Some(json) = table.get("json").and_then(|value| value.json()) {
        request.body("application/json", json.to_string());
    }
    if let Some(query) = table.get("graphql").and_then(|value| value.nonempty()) {
        request.body("application/json", graphql(query));
    }
    if let Some(value) = table.get("push")
        && let Some(refs) = value.strings()
        && let Some(pack) = told(&value, pack::body(refs))
    {
        request.body(pack::MEDIA, pack);
    }
}

fn told<T, E: Display>(value: &Value<'_>, result: Result<T, E>) -> Option<T> {
    result.map_err(|error| value.complain(format!("`{}`: {error}", value.name()))).ok()
}
