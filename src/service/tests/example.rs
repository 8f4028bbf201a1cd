//! DESIGN §7's manifest, word for word.

use super::super::{Service, Target};
use super::requests::{Request, show};
use crate::facts::Demand;
use crate::words::{Authority, Scheme};

const TEXT: &str = include_str!("design-7.toml");

fn example() -> Service {
    Service::parse(TEXT, "github.toml").unwrap()
}

fn https(host: &str) -> Authority {
    Authority::parse(Scheme::Https, host).unwrap()
}

#[test]
fn the_published_format_loads_unchanged() {
    let service = example();
    assert_eq!(service.name().as_str(), "github");
    assert_eq!(service.hosts().len(), 4);
    assert!(service.modes().rewrite && service.modes().connect);
    assert_eq!((service.max_body_facts(), service.max_decode_prefix()), (512, 1_048_576));
    assert_eq!(service.datalog().rules.len(), 1);
    assert_eq!(&**service.provider(), "static");
    assert_eq!(service.verbs().len(), 2);
    assert!(service.selector("repo").unwrap().ignores_case());
    assert!(service.selector("ref").unwrap().applies_to("push"));
    assert!(!service.selector("ref").unwrap().applies_to("fetch"));
    assert_eq!(service.setup().env.len(), 2);
    assert_eq!(service.setup().files[0].mode, 0o600);
    assert!(service.operations().contains("create_repository"));
    for predicate in ["repository", "ref_update", "created_repository", "operation", "discover_service"] {
        assert!(service.reserved().contains(predicate), "{predicate}");
    }
    assert!(!service.uses_exec());
}

#[test]
fn a_push_is_one_item_and_its_refs_are_shared() {
    let push = Request::new("POST https://github.com/o/r.git/git-receive-pack")
        .json(r#"{"updates": [{"ref": "refs/heads/x", "kind": "create"}, {"ref": "refs/heads/y", "kind": "delete"}]}"#);
    let service = example();
    let reading = push.reading(&service).unwrap();
    assert!(!reading.wants_response());
    // which refs are written is no resource here: only a policy that asks for it has the body read
    let mut demand = Demand::nothing();
    assert!(!reading.wants_body(&demand));
    demand.add("ref_change");
    assert!(reading.wants_body(&demand));
    assert_eq!(push.items(&service), [r#"operation("push"); repository("o", "r")"#]);
    let shared: Vec<String> = push.facts(&service).unwrap().shared.iter().map(show).collect();
    assert!(shared.contains(&r#"ref_change("refs/heads/x", "create")"#.to_owned()), "{shared:?}");
    assert!(shared.contains(&r#"ref_change("refs/heads/y", "delete")"#.to_owned()));
}

#[test]
fn a_read_matches_the_repository_itself_and_all_below_it() {
    let service = example();
    for (path, expected) in [
        ("/repos/o/r", vec![r#"operation("read"); repository("o", "r")"#]),
        ("/repos/o/r/issues/1", vec![r#"operation("read"); repository("o", "r")"#]),
        ("/repos/o/r/", vec![r#"operation("read"); repository("o", "r")"#]),
        ("/repos/o", vec![""]),
        ("/repos//", vec![]),
    ] {
        if crate::facts::Path::parse(path).is_err() {
            continue;
        }
        let line = format!("GET https://api.github.com{path}");
        assert_eq!(Request::new(&line).items(&service), expected, "{path}");
    }
    assert_eq!(Request::new("POST https://api.github.com/repos/o/r/issues").items(&service), [""]);
    assert_eq!(Request::new("GET https://codeload.github.com/repos/o/r/issues").items(&service), [""]);
}

#[test]
fn what_came_of_it_is_remembered() {
    let service = example();
    let create = Request::new("POST https://api.github.com/orgs/acme/repos").json(r#"{"name": "new"}"#);
    let reading = create.reading(&service).unwrap();
    let facts = service.on_success(&reading, &create.body, None);
    assert_eq!(facts.iter().map(show).collect::<Vec<_>>(), [r#"created_repository("acme", "new")"#]);
    // without the name there is nothing to say of a new repository
    let nameless = Request::new("POST https://api.github.com/orgs/acme/repos").json("{}");
    assert_eq!(nameless.items(&service), [r#"operation("create_repository"); organization("acme")"#]);
    assert_eq!(service.on_success(&nameless.reading(&service).unwrap(), &nameless.body, None), []);
}

#[test]
fn a_secret_goes_where_the_manifest_says_in_the_words_it_says() {
    let service = example();
    let [basic] = service.injections(&https("github.com"), "api_key")[..] else { panic!() };
    assert!(basic.is_basic());
    assert_eq!(basic.target(), &Target::Header("authorization".into()));
    let mut rendered = Vec::new();
    basic.template().render_into(b"S", &mut rendered);
    assert_eq!(rendered, b"x-access-token:S");
    assert_eq!(service.injections(&https("api.github.com"), "api_key").len(), 0);
    assert_eq!(service.injections(&https("api.github.com"), "oauth").len(), 1);
    assert_eq!(service.injections(&https("codeload.github.com"), "oauth").len(), 0);
    assert!(!service.may_send_secret_to(&https("codeload.github.com")));
    assert!(!service.may_send_secret_to(&https("github.com:8443")));
}
