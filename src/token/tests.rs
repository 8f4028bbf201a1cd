//! What tokens promise, from mint to verify.

use std::sync::Arc;

use biscuit_auth::builder::{BlockBuilder, fact, string};
use biscuit_auth::{Algorithm, Biscuit, BiscuitBuilder, KeyPair};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::facts::{Fact, Term};
use crate::words::{GrantName, IssuerName, Reason, SpecName, Timestamp};

const LATER: Timestamp = 1_900_000_000;

fn rng() -> StdRng {
    StdRng::seed_from_u64(7)
}

fn keys() -> RootKeys {
    RootKeys::generate(&mut rng())
}

fn grants(names: &[&str]) -> Candidates {
    Candidates::Grants(names.iter().map(|n| GrantName::parse(n).unwrap()).collect())
}

fn claims() -> Claims {
    Claims {
        candidates: grants(&["orchestra-github"]),
        bearer: "orchestra:42".into(),
        issued_by: Some(IssuerName::parse("orchestra").unwrap()),
        facts: vec![Fact::new("task_fork", vec![Term::from("o"), Term::from("r")])],
        expires: LATER,
        narrowings: vec!["mail: only read".into()],
        checks: vec![],
    }
}

fn minted(keys: &RootKeys, claims: &Claims) -> Minted {
    mint(keys, claims, &mut rng()).unwrap()
}

/// A token with an authority block of our making, as somebody with the root key could make it.
fn forged(keys: &RootKeys, code: &str) -> String {
    let (id, pair) = keys.signer().unwrap();
    BiscuitBuilder::new().root_key_id(id).code(code).unwrap().build(pair).unwrap().to_base64().unwrap()
}

fn append(raw: &str, keys: &RootKeys, block: BlockBuilder) -> Biscuit {
    let padded = format!("{raw}{}", "=".repeat((4 - raw.len() % 4) % 4));
    Biscuit::from_base64(padded, keys).unwrap().append(block).unwrap()
}

#[test]
fn what_was_minted_is_what_is_verified() {
    let keys = keys();
    let minted = minted(&keys, &claims());
    assert!(!minted.token.as_str().contains(['=', '+', '/']));
    let token = verify(minted.token.as_str(), &keys).unwrap();
    assert_eq!(
        token.identity(),
        &Identity::Bearer {
            bearer: "orchestra:42".into(),
            issued_by: Some(IssuerName::parse("orchestra").unwrap()),
            candidates: grants(&["orchestra-github"]),
        }
    );
    assert_eq!(token.expires(), Some(LATER));
    assert!(!token.has_odd_expiry() && !token.is_sealed());
    assert_eq!(token.revocation_ids(), minted.revocation_ids);
    let block = &token.blocks()[0];
    assert!(block.facts.contains(&claims().facts[0]) && !block.third_party);
    let narrowings: Vec<_> = block.checks.iter().filter_map(narrowing).collect();
    assert_eq!(narrowings, ["mail: only read"]);
}

#[test]
fn grants_keep_their_order_and_a_spec_stands_alone() {
    let keys = keys();
    let names = ["z", "a", "m"];
    let token = minted(&keys, &Claims { candidates: grants(&names), ..claims() });
    let verified = verify(token.token.as_str(), &keys).unwrap();
    assert!(matches!(verified.identity(), Identity::Bearer { candidates, .. } if *candidates == grants(&names)));

    let spec = Candidates::Spec(SpecName::parse("worker").unwrap());
    let token = minted(&keys, &Claims { candidates: spec.clone(), ..claims() });
    let verified = verify(token.token.as_str(), &keys).unwrap();
    assert!(matches!(verified.identity(), Identity::Bearer { candidates, .. } if *candidates == spec));
}

#[test]
fn an_issuers_credential_names_the_issuer_and_nothing_else() {
    let keys = keys();
    let issuer = IssuerName::parse("orchestra").unwrap();
    let token = mint_issuer(&keys, &issuer, LATER, &mut rng()).unwrap();
    let verified = verify(token.token.as_str(), &keys).unwrap();
    assert_eq!(verified.identity(), &Identity::Issuer(issuer));
    assert_eq!(verified.expires(), Some(LATER));
}

#[test]
fn padded_and_unpadded_are_the_same_token() {
    let keys = keys();
    for length in 1..8 {
        let minted = minted(&keys, &Claims { bearer: "b".repeat(length), ..claims() });
        let raw = minted.token.as_str();
        let padded = format!("{raw}{}", "=".repeat((4 - raw.len() % 4) % 4));
        assert_eq!(verify(&padded, &keys).unwrap().revocation_ids(), minted.revocation_ids);
    }
}

#[test]
fn several_root_keys_are_live_and_a_retired_one_ends_its_tokens() {
    let mut keys = keys();
    let old = minted(&keys, &claims());
    let before = keys.fingerprint();
    assert_eq!(keys.rotate(&mut StdRng::seed_from_u64(8)), 2);
    assert_ne!(keys.fingerprint(), before);
    let new = minted(&keys, &claims());
    let keys = RootKeys::from_bytes(&keys.to_bytes()).unwrap();
    assert_eq!(inspect(new.token.as_str(), None).unwrap().root_key_id, Some(2));
    for token in [&old, &new] {
        verify(token.token.as_str(), &keys).unwrap();
    }
    let mut keys = keys;
    assert!(keys.retire(1) && !keys.retire(2));
    assert_eq!(verify(old.token.as_str(), &keys).unwrap_err(), TokenError::Signature);
    verify(new.token.as_str(), &keys).unwrap();
}

#[test]
fn root_keys_are_read_from_lines_or_a_pem_and_errors_hold_no_key() {
    let keys = keys();
    let text = String::from_utf8(keys.to_bytes().to_vec()).unwrap();
    let hex = text.rsplit('/').next().unwrap().trim().to_owned();
    assert_eq!(RootKeys::from_bytes(text.as_bytes()).unwrap().fingerprint(), keys.fingerprint());
    let pair = KeyPair::new_with_rng(Algorithm::Ed25519, &mut rng());
    let pem = pair.to_private_key_pem().unwrap();
    assert_eq!(RootKeys::from_bytes(pem.as_bytes()).unwrap().fingerprint(), keys.fingerprint());
    for wrong in
        ["", "# only a comment", &hex, &format!("1 {hex}"), &format!("{text}{text}"), "-----BEGIN X-----", "\u{0}"]
    {
        let error = RootKeys::from_bytes(wrong.as_bytes()).unwrap_err().to_string();
        assert!(!error.contains(&hex), "{error}");
    }
    assert_eq!(format!("{keys:?}"), "[1]");
}

#[test]
fn r130_what_is_no_token_is_refused_with_a_constant_message() {
    let keys = keys();
    let good = minted(&keys, &claims()).token.as_str().to_owned();
    let other = RootKeys::generate(&mut StdRng::seed_from_u64(9));
    let foreign = minted(&other, &claims()).token.as_str().to_owned();
    let mut changed = good.clone().into_bytes();
    let middle = changed.len() / 3;
    changed[middle] = if changed[middle] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).unwrap();
    let cut = &good[..good.len() - 8];
    let long = "A".repeat(MAX_TOKEN + 1);
    let messages: std::collections::BTreeSet<String> =
        ["", "SECRETWORD", "SECRET WORD", "ghp_SECRETWORD", "SECRET\n", "\u{1F600}", cut, &changed, &foreign, &long]
            .iter()
            .map(|raw| {
                let error = verify(raw, &keys).unwrap_err();
                assert_eq!(error.reason(), Reason::TokenInvalid);
                let text = format!("{error} {error:?}");
                assert!(!text.contains("SECRET") && (raw.len() < 8 || !text.contains(&raw[..8])), "{text}");
                error.to_string()
            })
            .collect();
    assert!(messages.len() <= 3, "{messages:?}");
}

#[test]
fn attenuation_adds_one_id_behind_the_parents_and_takes_away() {
    let keys = keys();
    let parent = minted(&keys, &claims());
    let attenuation = Attenuation {
        expires: Some(LATER - 10),
        narrowings: vec!["github: only read".into()],
        checks: vec![parse_check(r#"check if operation("read")"#).unwrap()],
    };
    let child = attenuate(parent.token.as_str(), &attenuation, &mut rng()).unwrap();
    assert_eq!(child.expires, Some(LATER - 10));
    let verified = verify(child.token.as_str(), &keys).unwrap();
    assert_eq!(verified.revocation_ids(), child.revocation_ids);
    assert_eq!(child.revocation_ids[..1], parent.revocation_ids[..]);
    assert_eq!(child.revocation_ids.len(), 2);
    assert_eq!(verified.expires(), Some(LATER - 10));
    assert_eq!(verified.blocks()[1].checks.len(), 3);
    assert!(verified.blocks()[1].facts.is_empty());

    // A later expiry than the parent's changes nothing.
    let longer = Attenuation { expires: Some(LATER + 10), ..Attenuation::default() };
    let child = attenuate(parent.token.as_str(), &longer, &mut rng()).unwrap();
    assert_eq!(child.expires, Some(LATER));
    assert_eq!(verify(child.token.as_str(), &keys).unwrap().expires(), Some(LATER));
    assert_eq!(attenuate(parent.token.as_str(), &Attenuation::default(), &mut rng()).unwrap_err(), MintError::Nothing);
}

#[test]
fn blocks_are_bounded_and_a_sealed_token_takes_no_more() {
    let keys = keys();
    let mut raw = minted(&keys, &claims()).token.as_str().to_owned();
    let narrower = Attenuation { narrowings: vec!["a: none".into()], ..Attenuation::default() };
    for _ in 1..MAX_BLOCKS {
        raw = attenuate(&raw, &narrower, &mut rng()).unwrap().token.as_str().to_owned();
    }
    assert_eq!(verify(&raw, &keys).unwrap().blocks().len(), MAX_BLOCKS);
    let error = attenuate(&raw, &narrower, &mut rng()).unwrap_err();
    assert_eq!(error, MintError::Token(TokenError::TooManyBlocks));
    let beyond = append(&raw, &keys, BlockBuilder::new()).to_base64().unwrap();
    assert_eq!(verify(&beyond, &keys).unwrap_err(), TokenError::TooManyBlocks);

    let raw = minted(&keys, &claims()).token.as_str().to_owned();
    let sealed = append(&raw, &keys, BlockBuilder::new()).seal().unwrap().to_base64().unwrap();
    assert!(verify(&sealed, &keys).unwrap().is_sealed());
    assert_eq!(attenuate(&sealed, &narrower, &mut rng()).unwrap_err(), MintError::Token(TokenError::Sealed));
}

#[test]
fn a_block_signed_with_a_malleable_algorithm_is_refused() {
    let keys = keys();
    let raw = minted(&keys, &claims()).token.as_str().to_owned();
    let padded = format!("{raw}{}", "=".repeat((4 - raw.len() % 4) % 4));
    let next = KeyPair::new_with_algorithm(Algorithm::Secp256r1);
    let token = Biscuit::from_base64(padded, &keys).unwrap();
    let token = token.append_with_keypair(&next, BlockBuilder::new().check("check if true").unwrap()).unwrap();
    assert_eq!(verify(&token.to_base64().unwrap(), &keys).unwrap_err(), TokenError::Algorithm);
}

#[test]
fn identity_comes_from_the_authority_block_alone_and_must_be_clear() {
    let keys = keys();
    for code in [
        "",
        r#"bearer("a");"#,
        r#"grant("g");"#,
        r#"bearer("a"); bearer("b"); grant("g");"#,
        r#"bearer("a"); bearer("a"); grant("g");"#,
        r#"bearer("a"); grant("g"); spec("s");"#,
        r#"bearer("a"); spec("s"); spec("t");"#,
        r#"bearer("a"); grant("g"); issued_by("x"); issued_by("y");"#,
        r#"bearer("a"); grant("g"); issuer("i");"#,
        r#"issuer("i"); grant("g");"#,
        r#"issuer("i"); issuer("j");"#,
        r#"bearer(7); grant("g");"#,
        r#"bearer(""); grant("g");"#,
        r#"bearer("a", "b"); grant("g");"#,
        r#"bearer("a"); grant("../g");"#,
        r#"bearer("a"); grant($g) <- other($g);"#,
    ] {
        assert_eq!(verify(&forged(&keys, code), &keys).unwrap_err(), TokenError::Identity, "{code}");
    }
    // What anybody can append counts for nothing.
    let raw = minted(&keys, &claims()).token.as_str().to_owned();
    let identity = verify(&raw, &keys).unwrap().identity().clone();
    let block = BlockBuilder::new()
        .code(r#"bearer("root"); issuer("orchestra"); grant("all"); spec("admin"); issued_by("me");"#)
        .unwrap();
    let child = append(&raw, &keys, block).to_base64().unwrap();
    let child = verify(&child, &keys).unwrap();
    assert_eq!(child.identity(), &identity);
    assert_eq!(child.blocks()[1].facts.len(), 5);
}

#[test]
fn facts_that_would_change_who_it_is_or_when_it_ends_cant_be_stated() {
    let keys = keys();
    for name in ["bearer", "issuer", "issued_by", "grant", "spec", "time"] {
        let facts = vec![Fact::new(name, vec![Term::from("x")])];
        let error = mint(&keys, &Claims { facts, ..claims() }, &mut rng()).unwrap_err();
        assert_eq!(error, MintError::ReservedFact(name.into()));
    }
    let nested = Term::Set(Arc::new([Term::Set(Arc::default())].into()));
    let mixed = Term::Set(Arc::new([Term::from(1), Term::from("a")].into()));
    let mut deep = Term::Null;
    for _ in 0..40 {
        deep = Term::Array([deep].into());
    }
    for term in [nested, mixed, deep] {
        let facts = vec![Fact::new("f", vec![term])];
        let error = mint(&keys, &Claims { facts, ..claims() }, &mut rng()).unwrap_err();
        assert_eq!(error, MintError::FactTerm("f".into()));
    }
    for name in ["", "1a", "a b", "a(1); b", "ü", "$x"] {
        let facts = vec![Fact::new(name, vec![Term::from(1)])];
        let error = mint(&keys, &Claims { facts, ..claims() }, &mut rng()).unwrap_err();
        assert_eq!(error, MintError::FactName(name.into()));
    }
}

#[test]
fn a_mint_says_what_is_wrong_with_what_was_asked() {
    let keys = keys();
    let wrong = |claims: Claims| mint(&keys, &claims, &mut rng()).unwrap_err();
    assert_eq!(wrong(Claims { candidates: grants(&[]), ..claims() }), MintError::NoCandidate);
    assert_eq!(wrong(Claims { candidates: grants(&["a", "a"]), ..claims() }), MintError::GrantTwice("a".into()));
    for bearer in ["", "a\nb", &"x".repeat(257)] {
        assert_eq!(wrong(Claims { bearer: bearer.into(), ..claims() }), MintError::Bearer(bearer.into()));
    }
    for line in ["", " ", "a: none\nb: none"] {
        assert_eq!(wrong(Claims { narrowings: vec![line.into()], ..claims() }), MintError::Narrowing(line.into()));
    }
    let facts = vec![Fact::new("f", vec![Term::from("x".repeat(MAX_TOKEN).as_str())])];
    assert_eq!(wrong(Claims { facts, ..claims() }), MintError::TooLong);
}

#[test]
fn an_expiry_in_another_form_is_flagged() {
    let keys = keys();
    let raw = minted(&keys, &claims()).token.as_str().to_owned();
    for (code, odd) in [
        ("check if time($t), $t < 2026-12-01T00:00:00Z", false),
        ("check if time($t), $t > 2020-12-01T00:00:00Z", true),
        ("late(true) <- time($t), $t > 2020-12-01T00:00:00Z; reject if late(true)", true),
        ("check if operation(\"read\")", false),
    ] {
        let child = append(&raw, &keys, BlockBuilder::new().code(code).unwrap()).to_base64().unwrap();
        assert_eq!(verify(&child, &keys).unwrap().has_odd_expiry(), odd, "{code}");
    }
}

#[test]
fn third_party_blocks_and_trusting_scopes_are_flagged() {
    let keys = keys();
    let raw = minted(&keys, &claims()).token.as_str().to_owned();
    for code in [
        "trusting previous; check if true",
        "check if a(1) trusting previous",
        "a($x) <- b($x) trusting authority",
        "check if a(1) trusting ed25519/acdd6d5b53bfee478bf689f8e012fe7988bf755e3d7c5152947abc149bc20189",
    ] {
        let mut block = BlockBuilder::new().code(code).unwrap();
        if code.starts_with("trusting") {
            block = block.scope(biscuit_auth::builder::Scope::Previous);
        }
        let child = append(&raw, &keys, block).to_base64().unwrap();
        let token = verify(&child, &keys).unwrap();
        assert_eq!(token.blocks().iter().map(|b| b.third_party).collect::<Vec<_>>(), [false, true], "{code}");
    }
    let parent = append(&raw, &keys, BlockBuilder::new());
    let third = KeyPair::new();
    let request = parent.third_party_request().unwrap();
    let block = request.create_block(&third.private(), BlockBuilder::new().code("f(\"own table\");").unwrap()).unwrap();
    let child = parent.append_third_party(third.public(), block).unwrap().to_base64().unwrap();
    let token = verify(&child, &keys).unwrap();
    assert_eq!(token.blocks().iter().map(|b| b.third_party).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(token.blocks()[2].facts, [Fact::new("f", vec![Term::from("own table")])]);
    let shown = inspect(&child, None).unwrap();
    assert_eq!(shown.blocks[2].facts, [r#"f("own table")"#]);
    assert!(shown.blocks[2].third_party);
}

#[test]
fn r154_a_string_in_a_token_stays_a_string() {
    let keys = keys();
    let hostile = "x\"); allow if true; bearer(\"root\"); // {param} $var \u{2028}\n";
    let facts = vec![Fact::new("task_fork", vec![Term::from(hostile), Term::from("r")])];
    let token = minted(&keys, &Claims { facts: facts.clone(), bearer: "a\"); grant(\"b".into(), ..claims() });
    let verified = verify(token.token.as_str(), &keys).unwrap();
    assert!(verified.blocks()[0].facts.contains(&facts[0]));
    assert!(
        matches!(verified.identity(), Identity::Bearer { candidates, .. } if *candidates == grants(&["orchestra-github"]))
    );
    // Printing escapes: what is shown holds one fact for each line.
    let shown = inspect(token.token.as_str(), Some(&keys)).unwrap();
    assert!(shown.blocks[0].facts.iter().all(|f| !f.contains('\n') && !f.contains('\u{2028}')));
    assert!(shown.blocks[0].facts.contains(&"bearer(\"a\\\"); grant(\\\"b\")".to_owned()));
}

#[test]
fn inspection_tells_who_signed_and_never_the_token() {
    let keys = keys();
    let other = RootKeys::generate(&mut StdRng::seed_from_u64(9));
    let token = minted(&keys, &claims());
    let shown = inspect(token.token.as_str(), Some(&keys)).unwrap();
    assert_eq!(shown.signed_by_us, Some(true));
    assert_eq!(inspect(token.token.as_str(), Some(&other)).unwrap().signed_by_us, Some(false));
    assert_eq!(inspect(token.token.as_str(), None).unwrap().signed_by_us, None);
    assert_eq!(shown.expires, Some(LATER));
    assert_eq!(shown.blocks[0].narrowings, ["mail: only read"]);
    assert!(shown.blocks[0].checks.is_empty());
    let text = format!("{shown:?} {} {token:?}", serde_json::to_string(&shown).unwrap());
    assert!(!text.contains(&token.token.as_str()[..20]));
}

#[test]
fn a_hostile_block_with_many_facts_is_read_quickly_or_refused() {
    let keys = keys();
    let raw = minted(&keys, &claims()).token.as_str().to_owned();
    let mut block = BlockBuilder::new();
    for index in 0..900 {
        block = block.fact(fact("f", &[string(&format!("{index:x}"))])).unwrap();
    }
    let child = append(&raw, &keys, block).to_base64().unwrap();
    match verify(&child, &keys) {
        Ok(token) => assert_eq!(token.blocks()[1].facts.len(), 900),
        Err(error) => assert_eq!(error, TokenError::TooLong),
    }
}

fn term() -> impl Strategy<Value = Term> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Term::Integer),
        ".{0,12}".prop_map(|text| Term::str(&text)),
        (0..4_000_000_000u64).prop_map(Term::Date),
        proptest::collection::vec(any::<u8>(), 0..6).prop_map(|b| Term::Bytes(b.into())),
        any::<bool>().prop_map(Term::Bool),
        Just(Term::Null),
    ];
    let set = proptest::collection::btree_set(".{0,4}".prop_map(|t| Term::str(&t)), 0..4)
        .prop_map(|s| Term::Set(Arc::new(s)));
    prop_oneof![
        leaf.clone(),
        set,
        proptest::collection::vec(leaf.clone(), 0..3).prop_map(|a| Term::Array(a.into())),
        proptest::collection::btree_map(".{0,4}".prop_map(|t| crate::facts::Key::Str(t.as_str().into())), leaf, 0..3)
            .prop_map(|m| Term::Map(Arc::new(m))),
    ]
}

fn facts() -> impl Strategy<Value = Vec<Fact>> {
    let fact = ("[a-z]{1,3}_[a-z0-9_]{0,6}", proptest::collection::vec(term(), 1..4))
        .prop_map(|(name, terms)| Fact::new(name.as_str(), terms));
    proptest::collection::vec(fact, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_attenuated_token_verifies_with_its_parents_ids_first(
        facts in facts(),
        lines in proptest::collection::vec("[a-z]{1,8}: only [a-z]{1,8}", 1..4),
        depth in 1usize..5,
        expires in proptest::option::of(1_800_000_000u64..2_000_000_000),
    ) {
        let keys = keys();
        let mut parent = minted(&keys, &Claims { facts: facts.clone(), ..claims() });
        let stated = verify(parent.token.as_str(), &keys).unwrap();
        for fact in &facts {
            prop_assert!(stated.blocks()[0].facts.contains(fact), "{fact:?}");
        }
        for _ in 0..depth {
            let attenuation = Attenuation { expires, narrowings: lines.clone(), checks: vec![] };
            let child = attenuate(parent.token.as_str(), &attenuation, &mut StdRng::from_entropy()).unwrap();
            let verified = verify(child.token.as_str(), &keys).unwrap();
            prop_assert_eq!(verified.revocation_ids(), &child.revocation_ids[..]);
            prop_assert!(child.revocation_ids.starts_with(&parent.revocation_ids));
            prop_assert_eq!(child.revocation_ids.len(), parent.revocation_ids.len() + 1);
            prop_assert_eq!(verified.identity(), stated.identity());
            prop_assert!(verified.expires() <= stated.expires());
            prop_assert_eq!(verified.expires(), child.expires);
            // Both readers see the same blocks.
            let bytes = verify::decode(child.token.as_str()).unwrap();
            let proto = <biscuit_auth::format::schema::Biscuit as prost::Message>::decode(bytes.as_slice()).unwrap();
            let unverified = read::unverified_blocks(&proto).unwrap();
            prop_assert_eq!(format!("{:?}", verified.blocks()), format!("{unverified:?}"));
            parent = child;
        }
    }

    #[test]
    fn no_text_and_no_bytes_make_verify_panic(text in ".{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        use base64::Engine as _;
        let keys = keys();
        let _ = verify(&text, &keys);
        let _ = inspect(&text, None);
        let encoded = verify::BASE64.encode(&bytes);
        prop_assert!(verify(&encoded, &keys).is_err());
        let _ = inspect(&encoded, Some(&keys));
        let _ = attenuate(&encoded, &Attenuation { expires: Some(1), ..Attenuation::default() }, &mut rng());
    }

    #[test]
    fn a_changed_token_never_verifies(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        use base64::Engine as _;
        let keys = keys();
        let raw = minted(&keys, &claims()).token.as_str().to_owned();
        let mut bytes = verify::decode(&raw).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let changed = verify::BASE64.encode(&bytes);
        prop_assert!(verify(&changed, &keys).is_err());
        let _ = inspect(&changed, Some(&keys));
    }

    #[test]
    fn a_stated_fact_prints_and_reads_back(facts in facts()) {
        // The parser has no spelling for a map in a fact, nor for no bytes.
        let spelled = |term: &Term| match term {
            Term::Map(_) => false,
            Term::Bytes(bytes) => !bytes.is_empty(),
            Term::Array(terms) => !terms.iter().any(|t| matches!(t, Term::Bytes(b) if b.is_empty())),
            _ => true,
        };
        for fact in facts {
            let printed = print_fact(&fact);
            prop_assert!(!printed.chars().any(char::is_control));
            if fact.terms.iter().all(spelled) && !printed.contains("\\u{") {
                prop_assert_eq!(parse_facts(&printed).map(|f| f[0].clone()), Ok(fact), "{}", printed);
            }
        }
    }
}
