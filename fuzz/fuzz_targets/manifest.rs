//! A manifest: it loads or says where it is wrong, and what loads reads requests and puts no secret
//! where its own `credential.hosts` doesn't let one go.
#![no_main]

use kleis::facts::{Body, Demand, Path, Query, RequestView, Term};
use kleis::service::Service;
use kleis::words::{Authority, Scheme};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let service = match Service::parse(text, "a.toml") {
        Ok(service) => service,
        Err(errors) => {
            assert!(!errors.0.is_empty());
            assert!(errors.0.iter().all(|error| !error.message.is_empty()));
            return;
        }
    };
    let stated = service.reserved();
    for forbidden in ["grant", "spec", "bearer", "issuer", "issued_by", "use_credential", "request_method"] {
        let selected = service.selectors().iter().any(|selector| &**selector.predicate() == forbidden);
        let resource = service.resources().iter().any(|resource| &**resource == forbidden);
        assert!(selected || resource || !stated.contains(forbidden), "{forbidden}");
    }
    for (host, line) in [("a.test", "/a/b"), ("api.github.com", "/repos/o/r/pulls/1"), ("github.com", "/o/r.git/x")] {
        let authority = Authority::parse(Scheme::Https, host).expect("a host");
        if !service.may_send_secret_to(&authority) {
            assert!(service.injections(&authority, "oauth").is_empty());
        }
        let (path, query) = (Path::parse(line).expect("a path"), Query::default());
        let view = RequestView {
            id: "",
            method: "POST",
            authority: &authority,
            path: line,
            query: None,
            headers: &[("content-type", b"application/json")],
            size: None,
            client: None,
            time: 0,
        };
        let Ok(reading) = service.reading(&view, &path, &query) else { continue };
        let body = Body::Decoded(Term::Array([Term::from("x"), Term::from(1)].into_iter().collect()));
        if let Ok(facts) = service.facts(&view, &path, &query, &reading, body, &Demand::everything()) {
            assert!(!facts.items.is_empty());
        }
    }
});
