use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::facts::{body_nodes, lookup};

macro_rules! vector {
    ($name:literal) => {
        &include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/git/", $name))[..]
    };
}

fn push(bytes: &[u8], complete: bool) -> Decoded {
    decode(&Decoder::GitReceivePack, "", "", bytes, complete, &Bounds::default())
}

fn fetch(encoding: &str, bytes: &[u8], complete: bool) -> Decoded {
    decode(&Decoder::GitUploadPack, "", encoding, bytes, complete, &Bounds::default())
}

fn ready(decoded: Decoded) -> Term {
    match decoded {
        Decoded::Ready(term) => term,
        other => panic!("{other:?}"),
    }
}

fn at(tree: &Term, path: &str) -> Term {
    lookup(tree, &path.split('.').collect::<Vec<_>>()).cloned().unwrap_or_else(|| panic!("nothing at {path}"))
}

/// `kind ref` of each update.
fn updates(decoded: Decoded) -> Vec<String> {
    let Term::Array(updates) = at(&ready(decoded), "updates") else { panic!() };
    let word = |update: &Term, key| at(update, key).as_str().unwrap().to_owned();
    updates.iter().map(|update| format!("{} {}", word(update, "kind"), word(update, "ref"))).collect()
}

const A: &str = "1111111111111111111111111111111111111111";
const B: &str = "2222222222222222222222222222222222222222";
const ZERO: &str = "0000000000000000000000000000000000000000";

fn pkt(line: impl AsRef<[u8]>) -> Vec<u8> {
    let line = line.as_ref();
    [format!("{:04x}", line.len() + 4).as_bytes(), line].concat()
}

/// A push of one line after the other, with capabilities on the first.
fn request(lines: &[&str], caps: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let caps = if index == 0 { format!("\0{caps}") } else { String::new() };
        bytes.extend(pkt(format!("{line}{caps}")));
    }
    bytes.extend(b"0000");
    bytes
}

#[test]
fn r86_a_push_names_its_refs_before_any_byte_of_the_pack() {
    let body = vector!("01-push-creates-a-branch");
    let whole = ready(push(body, true));
    assert_eq!(
        at(&whole, "updates"),
        tree(json!([{
            "ref": "refs/heads/main", "old": ZERO, "new": "4f248b93e785dd0af4e2205acc5bca71f9491193",
            "kind": "create", "create": true, "delete": false,
        }]))
    );
    assert_eq!(at(&whole, "capabilities.0"), Term::str("report-status-v2"));
    assert_eq!((at(&whole, "kind"), at(&whole, "signed")), (Term::str("receive-pack"), Term::Bool(false)));
    // decided as soon as the commands are there, and the same however much of the pack has come
    let flush = body.windows(8).position(|w| w == b"0000PACK").unwrap() + 4;
    for end in 0..body.len() {
        let expected = if end < flush { Decoded::NeedMore } else { Decoded::Ready(whole.clone()) };
        assert_eq!(push(&body[..end], false), expected, "{end}");
    }
}

#[test]
fn r86_every_kind_of_update_is_told_apart() {
    assert_eq!(
        updates(push(vector!("02-push-updates-and-creates-atomically"), true)),
        ["update refs/heads/main", "create refs/heads/dev/x", "create refs/tags/v1"]
    );
    assert_eq!(updates(push(vector!("04-push-deletes-without-a-pack"), true)), ["delete refs/heads/dev/x"]);
    let mut mixed = updates(push(vector!("05-push-forces-creates-and-deletes"), true));
    mixed.sort();
    assert_eq!(mixed, ["create refs/heads/old", "delete refs/tags/v1", "update refs/heads/main"]);
    assert_eq!(updates(push(vector!("07-push-from-a-shallow-clone"), true)), ["create refs/heads/sh"]);
    assert_eq!(updates(push(vector!("08-push-to-a-sha256-repository"), true)), ["create refs/heads/main"]);
}

#[test]
fn published_rules_find_refs_creations_and_deletions() {
    let whole = ready(push(vector!("05-push-forces-creates-and-deletes"), true));
    let found = |last: &str, value: &Term| {
        body_nodes(&whole)
            .filter(|(path, term)| {
                path.len() == 3 && path[0] == Term::str("updates") && path[2] == Term::str(last) && term == value
            })
            .count()
    };
    assert_eq!((found("create", &true.into()), found("delete", &true.into())), (1, 1));
    assert_eq!(found("ref", &Term::str("refs/tags/v1")), 1);
}

#[test]
fn push_options_are_read_behind_the_commands() {
    let body = vector!("03-push-with-options");
    assert_eq!(at(&ready(push(body, true)), "push_options"), tree(json!(["ci.skip", "merge_request.title=a b"])));
    let flush = body.windows(4).position(|w| w == b"0000").unwrap() + 4;
    assert_eq!(push(&body[..flush], false), Decoded::NeedMore);
    failure(push(&body[..flush], true));
}

#[test]
fn an_empty_command_list_is_a_probe_with_nothing_behind_it() {
    let probe = vector!("06-push-probe");
    assert_eq!(at(&ready(push(probe, true)), "updates"), tree(json!([])));
    assert_eq!(at(&ready(push(probe, true)), "update_count"), Term::Integer(0));
    assert_eq!(push(probe, false), Decoded::NeedMore);
    failure(push(b"0000PACK", true));
    failure(push(b"00000000", false));
    failure(push(b"", true));
}

#[test]
fn r86_what_servers_read_differently_is_no_push() {
    let update = format!("{A} {B} refs/heads/x");
    assert_eq!(updates(push(&request(&[&update], " agent=x"), true)), ["update refs/heads/x"]);
    let twice = format!("{A} {ZERO} refs/heads/x");
    for lines in [
        &[update.as_str(), twice.as_str()][..],
        &[&format!("{ZERO} {ZERO} refs/heads/x")],
        &[&format!("{A} {B}")],
        &[&format!("{A}  {B} refs/heads/x")],
        &[&format!("{A} {} refs/heads/x", &B[1..])],
        &[&format!("{A} {} refs/heads/x", "A".repeat(40))],
        &[&format!("{A} {} refs/heads/x", "a".repeat(64))],
        &["push-cert"],
        &[&update, "shallow 1111111111111111111111111111111111111111"],
        &["hello"],
    ] {
        failure(push(&request(lines, " x"), true));
    }
    for name in [
        "",
        "refs/heads/a b",
        "refs/heads/../main",
        "refs/heads//main",
        "/refs/heads/main",
        "refs/heads/main/",
        "refs/heads/.x",
        "refs/heads/x.lock",
        "refs/heads/x.",
        "refs/heads/a~1",
        "refs/heads/a^",
        "refs/heads/a:b",
        "refs/heads/a\\b",
        "refs/heads/a*",
        "refs/heads/@{x",
        "@",
        "refs/heads/a\u{1}",
        "refs/heads/a\u{7f}",
    ] {
        failure(push(&request(&[&format!("{A} {B} {name}")], ""), true));
    }
    for name in ["refs/heads/ü", "refs/for/main%topic=x", "HEAD", "refs/heads/a@b", "refs/heads/#1"] {
        assert_eq!(updates(push(&request(&[&format!("{A} {B} {name}")], ""), true)), [format!("update {name}")]);
    }
    // capabilities again behind the first command
    let again = [pkt(format!("{update}\0a")), pkt(format!("{A} {B} refs/heads/y\0b")), b"0000".to_vec()].concat();
    failure(push(&again, true));
    let cert = [pkt("push-cert\0a\n"), pkt("certificate version 0.1\n")].concat();
    failure(push(&cert, false));
    failure(push(&request(&[&update], "object-format=sha256"), true));
    failure(push(&request(&[&update], "object-format=sha1 object-format=sha256"), true));
}

#[test]
fn broken_frames_are_refused_at_once() {
    for body in ["zzzz", "00", "0003", "0004", "0002", "0001", "fff1", "-001", "PACK", "{\"a\":1}", "0x10", " 123"] {
        failure(push(body.as_bytes(), true));
    }
    assert!(matches!(push(b"PACK", false), Decoded::Failed(_)));
    assert_eq!(push(b"00", false), Decoded::NeedMore);
}

#[test]
fn r100_a_command_list_ends_within_the_prefix() {
    let lines: Vec<String> = (0..40).map(|i| format!("{A} {B} refs/heads/branch-{i}")).collect();
    let body = request(&lines.iter().map(String::as_str).collect::<Vec<_>>(), "");
    let within = |max_prefix| {
        decode(&Decoder::GitReceivePack, "", "", &body, false, &Bounds { max_prefix, ..Bounds::default() })
    };
    assert_eq!(updates(within(body.len())).len(), 40);
    assert_eq!(within(body.len() - 1), Decoded::TooLarge);
    let lines: Vec<String> = (0..90).map(|i| format!("{A} {B} refs/heads/branch-{i}")).collect();
    let many = request(&lines.iter().map(String::as_str).collect::<Vec<_>>(), "");
    assert_eq!(push(&many, true), Decoded::Truncated);
}

#[test]
fn r83_a_fetch_says_what_it_wants_in_both_protocols() {
    let wants = |decoded| at(&ready(decoded), "want_count");
    let clone = ready(fetch("", vector!("12-v2-fetch-of-a-clone"), true));
    assert_eq!((at(&clone, "kind"), at(&clone, "command")), (Term::str("v2"), Term::str("fetch")));
    assert_eq!(at(&clone, "wants.0"), Term::str("4854980f7eafb302fc13bfcb26e3b06040d48a2b"));
    assert_eq!(at(&clone, "args"), tree(json!(["thin-pack", "no-progress", "ofs-delta", "done"])));
    assert_eq!(wants(fetch("", vector!("21-v0-fetch-of-a-clone"), true)), Term::Integer(2));
    assert_eq!(wants(fetch("", vector!("14-v2-fetch-with-haves"), true)), Term::Integer(2));
    assert_eq!(wants(fetch("", vector!("22-v0-fetch-with-haves"), true)), Term::Integer(2));
    assert_eq!(wants(fetch("", vector!("16-v2-fetch-of-sha256"), true)), Term::Integer(2));
    let shallow = ready(fetch("", vector!("13-v2-fetch-shallow-and-filtered"), true));
    let Term::Array(args) = at(&shallow, "args") else { panic!() };
    assert!(args.contains(&Term::str("deepen 1")) && args.contains(&Term::str("filter blob:none")));
    let refs = ready(fetch("", vector!("11-v2-ls-refs"), true));
    assert_eq!(at(&refs, "command"), Term::str("ls-refs"));
    assert_eq!(at(&refs, "ref_prefixes"), tree(json!(["HEAD", "refs/heads/", "refs/tags/"])));
}

#[test]
fn r83_compressed_fetches_are_read_from_their_beginning() {
    for body in [vector!("15-v2-fetch-of-many-tags.gz"), vector!("23-v0-fetch-of-many-tags.gz")] {
        let whole = fetch("gzip", body, true);
        let Term::Integer(wants) = at(&ready(whole.clone()), "want_count") else { panic!() };
        assert!(wants >= 60);
        let mut answers: Vec<Decoded> = (0..=body.len()).map(|end| fetch("gzip", &body[..end], false)).collect();
        answers.dedup();
        assert_eq!(answers, [Decoded::NeedMore, whole]);
        failure(fetch("gzip", &body[..body.len() / 2], true));
        failure(fetch("", body, true));
    }
}

#[test]
fn a_fetch_that_is_neither_protocol_is_refused() {
    let v2 = |lines: &[&str]| {
        let mut bytes: Vec<u8> = Vec::new();
        for line in lines {
            bytes.extend(if line.starts_with("000") { line.as_bytes().to_vec() } else { pkt(line) });
        }
        fetch("", &bytes, true)
    };
    let want = format!("want {A}");
    assert!(matches!(v2(&["command=object-info", "0001", "size", "0000"]), Decoded::Ready(_)));
    assert!(matches!(v2(&["command=fetch", "0000"]), Decoded::Ready(_)));
    assert!(matches!(v2(&["0000"]), Decoded::Ready(_)));
    for lines in [
        &["command=fetch", "command=ls-refs", "0000"][..],
        &["agent=x", "0000"],
        &["agent=x", "0001", &want, "0000"],
        &["command=fetch", &want, "0000"],
        &["command=", "0000"],
        &["command=Fetch x", "0000"],
        &["command=fetch", "0001", "want x", "0000"],
        &["command=fetch", "0001", "0001", "0000"],
        &["command=fetch", "0001", &want],
        &[&want, "0001", "0000"],
        &[&want, "have x", "0000"],
        &["want x", "0000"],
        &[&want, &format!("{want} multi_ack"), "0000"],
        &["done", "0000"],
    ] {
        failure(v2(lines));
    }
}

proptest! {
    #[test]
    fn more_bytes_never_change_a_verdict(
        names in proptest::collection::vec("[a-z/.@~]{1,8}", 0..5), caps in "[a-z =-]{0,20}", tail in proptest::collection::vec(any::<u8>(), 0..40)
    ) {
        let lines: Vec<String> = names.iter().map(|name| format!("{A} {B} refs/heads/{name}")).collect();
        let mut bytes = request(&lines.iter().map(String::as_str).collect::<Vec<_>>(), &caps);
        bytes.extend(tail);
        let last = push(&bytes, true);
        for end in 0..bytes.len() {
            let answer = push(&bytes[..end], false);
            prop_assert!(answer == Decoded::NeedMore || answer == last, "{}: {:?}, then {:?}", end, answer, last);
        }
    }

    #[test]
    fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80), complete in any::<bool>()) {
        let _ = (push(&bytes, complete), fetch("", &bytes, complete), fetch("gzip", &bytes, complete));
    }
}
