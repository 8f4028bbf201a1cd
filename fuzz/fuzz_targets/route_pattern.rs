//! A pattern, and a path behind a newline: the pattern alone and the index of a manifest that has it agree.
#![no_main]

use kleis::facts::{Path, Query, RequestView};
use kleis::service::{RoutePattern, Service};
use kleis::words::{Authority, Scheme};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (pattern, raw) = text.split_once('\n').unwrap_or((text, "/a/b"));
    let parsed = RoutePattern::parse(pattern);
    let names = parsed.as_ref().map(RoutePattern::names).unwrap_or_default();
    let manifest = format!(
        "name = 'a'\nhosts = ['a.test', '*.b.test']\n[[route]]\nmatch = {}\nemit = ['operation(\"o\")']\n",
        toml_string(pattern)
    );
    let service = Service::parse(&manifest, "a.toml");
    assert!(parsed.is_ok() || service.is_err(), "a manifest took what is no pattern");
    let (Ok(service), Ok(path)) = (service, Path::parse(raw)) else { return };
    let authority = Authority::parse(Scheme::Https, "a.test").expect("a host");
    let view = RequestView {
        id: "",
        method: "GET",
        authority: &authority,
        path: raw,
        query: None,
        headers: &[],
        size: None,
        client: None,
        time: 0,
    };
    if let Ok(reading) = service.reading(&view, &path, &Query::default()) {
        // a path with an empty piece inside matches nothing but what says so
        assert!(!reading.is_routed() || !path.is_asterisk());
        assert!(names.len() <= path.segments().len() + 1 || !reading.is_routed());
    }
});

fn toml_string(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}
