//! What holds of every policy, token and manifest.

#![allow(
    clippy::string_slice,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

mod policy_world;

use kleis::policy::{Decision, Grant, Limits, Rulebook};
use kleis::service::{Catalog, Service};
use kleis::words::Reason;
use policy_world::*;
use proptest::prelude::*;

const NARROWINGS: &[&str] = &[
    "hub: all",
    "hub: none",
    "hub: only read",
    "hub: only read, push where repo is o/*",
    "hub: all except delete",
    "hub: only push where ref is refs/heads/agent/** and repo is o/r",
    "hub/app: only read, label",
    "hub/work: all",
    "post: none",
];

const BLOCKS: &[&str] = &[
    "check if operation(\"read\");",
    "check if operation($o), $o != \"delete\";",
    "check all repository($o, $r), $o == \"o\";",
    "reject if operation(\"push\") or operation(\"delete\");",
    "operation(\"read\"); grant(\"other\"); spec(\"all\"); repository(\"o\", \"r\");",
    "operation($x) <- bearer($x); allowed(1) <- operation($x); check if allowed(1);",
    "time(2000-01-01T00:00:00Z); check if time($t), $t > 2020-01-01T00:00:00Z;",
    "ref_update(\"refs/heads/agent/x\"); use_credential(\"hub/work\"); use_credential(\"hub/other\");",
    "body([\"updates\", 0, \"ref\"], \"refs/heads/agent/x\");",
    "check if 1 / 0 == 1;",
    "check if \"hub: only read\".extern::allows() || operation_absent(1);",
];

fn asks() -> Vec<Ask> {
    let push = |reference: &str| Ask::to("push").body(&format!("{{\"updates\": [{{\"ref\": \"{reference}\"}}]}}"));
    vec![
        Ask::to("read"),
        Ask::to("delete"),
        Ask::to("push"),
        push("refs/heads/agent/x"),
        push("refs/heads/main"),
        Ask::items(&["operation(\"read\"); repository(\"p\", \"r\");"]),
        Ask::items(&[
            "operation(\"read\"); repository(\"o\", \"r\");",
            "operation(\"push\"); repository(\"o\", \"r\");",
        ]),
        Ask::items(&[""]),
    ]
}

fn permits(decision: &Decision) -> bool {
    matches!(decision, Decision::Permit(_))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// INVARIANT 6.
    #[test]
    fn attenuation_only_takes_away(
        first in proptest::collection::vec(0..NARROWINGS.len(), 0..2),
        narrowings in proptest::collection::vec(0..NARROWINGS.len(), 0..3),
        blocks in proptest::collection::vec(0..BLOCKS.len(), 0..3),
        by_spec: bool,
    ) {
        let grants = [
            grant_text("g", "allow if operation($o), [\"read\", \"push\"].contains($o); allow if grant(\"other\");", ""),
            grant_text("other", "allow if true;", "credential = \"hub/work\""),
        ];
        let world = World::new(&grants, &[("s", "allow hub: only read, push where ref is refs/heads/**\ngrant g\n"), ("all", "allow hub: all\n")]);
        let minting = || {
            let minting = if by_spec { world.token().spec("s") } else { world.token() };
            first.iter().fold(minting, |minting, index| minting.narrow(NARROWINGS[*index]))
        };
        let parent = minting().make();
        let child = narrowings.iter().fold(minting(), |minting, index| {
            minting.block(&format!("check if \"{}\".extern::allows();", NARROWINGS[*index]))
        });
        // not every block is datalog that the token library takes: those are left out
        let usable = |block: &&str| biscuit_auth::builder::BlockBuilder::new().code(block).is_ok();
        let child = blocks.iter().map(|index| BLOCKS[*index]).filter(usable).fold(child, |minting, block| minting.block(block)).make();
        for ask in asks() {
            let (of_child, of_parent) = (world.decide(&child, &ask), world.decide(&parent, &ask));
            if let Decision::Permit(permit) = &of_child {
                prop_assert!(permits(&of_parent), "{of_parent:?}");
                let Decision::Permit(parents) = &of_parent else { unreachable!() };
                // what is left is spent as the parent would, or by a later candidate of the parent's
                prop_assert!(permit.credential() == parents.credential() || permit.candidate() != parents.candidate());
            }
        }
    }

    /// INVARIANT 7.
    #[test]
    fn manifests_can_not_escalate(picks in proptest::collection::vec(0..16usize, 1..5)) {
        const FORBIDDEN: &[&str] = &[
            "grant(\"other\");", "grant($g) <- service($g);", "bearer(\"root\") <- operation($o);", "spec(\"all\");",
            "issuer(\"x\");", "issued_by(\"x\");", "use_credential(\"hub/work\") <- operation($o);", "use_credential(\"hub/work\");",
            "check if true;", "reject if operation(\"read\");", "allow if true;", "deny if true;",
        ];
        const BENIGN: &[&str] = &[
            "repository(\"o\", \"x\") <- operation(\"read\");", "label(\"x\");", "seen($o) <- operation($o);", "loop($x) <- loop($x), seen($x);",
        ];
        let statement = |pick: &usize| FORBIDDEN.get(*pick).copied().unwrap_or_else(|| BENIGN[*pick - FORBIDDEN.len()]);
        let datalog: String = picks.iter().map(statement).collect();
        let manifest = HUB.replace("datalog = '''", &format!("datalog = '''\n{datalog}"));
        let service = Service::parse(&manifest, "hub.toml");
        if picks.iter().any(|pick| *pick < FORBIDDEN.len()) {
            prop_assert!(service.is_err(), "{datalog}");
            return Ok(());
        }
        let catalog = Catalog::new(vec![service.unwrap()]).unwrap();
        let grant = grant_text("g", "allow if bearer(\"root\") or grant(\"other\"); deny if operation(\"push\"); allow if operation(\"read\");", "");
        let grant = Grant::parse(&grant, "g.toml").unwrap();
        let mut world = World::of("allow if true;");
        let token = world.token().make();
        let plain = World::of("deny if operation(\"push\"); allow if operation(\"read\");");
        let plain_token = plain.token().make();
        world.rulebook = std::sync::Arc::new(Rulebook::compile(&catalog, vec![grant], vec![], Limits::default()).unwrap());
        for ask in asks() {
            let (with, without) = (world.decide(&token, &ask), plain.decide(&plain_token, &ask));
            prop_assert_eq!(permits(&with), permits(&without));
            if let (Decision::Permit(with), Decision::Permit(without)) = (&with, &without) {
                prop_assert_eq!(with.credential(), without.credential());
            }
        }
    }

    /// INVARIANT 8.
    #[test]
    fn errors_deny(which in 0..ERRORS.len(), place in 0..PLACES.len(), negate: bool, guard: bool) {
        let error = ERRORS[which];
        let error = if negate { format!("!({error})") } else { error.to_owned() };
        let guard = if guard { "$o == \"read\", " } else { "" };
        let datalog = PLACES[place].replace("ERROR", &format!("{guard}{error}"));
        let world = World::new(&[grant_text("g", &datalog, "")], &[]);
        let denial = world.denial(&world.token().make(), &Ask::to("read").with("request_port(443);"));
        prop_assert_eq!(denial.reason, Reason::PolicyError, "{}", datalog);
    }
}

const ERRORS: &[&str] = &[
    "1 / 0 == 1",
    "9223372036854775807 + 1 > 0",
    "0 - 9223372036854775807 - 2 < 0",
    "4611686018427387904 * 4 > 0",
    "$o > 3",
    "$o === 3",
    "$o !== null",
    "$o.length().length() == 1",
    "$o.get(0) == 1",
    "$o.starts_with(3)",
    "$o.matches(3)",
    "$o.matches(\"(\" + $o)",
    "[1].any($x -> $x > $o)",
    "{1, 2}.all($x -> $x / ($x - 1) == 2)",
    "{1, 2}.any($o -> $o == 1)",
    "$o && true",
    "true && ($o || true)",
    "$o.extern::cidr_contains($o)",
    "$o.extern::semver_satisfies(\"^1\")",
    "$o.extern::json_pointer(\"x\") == null",
    "\"../..\".extern::path_normalize() == $o",
    "$o.union({1}) == {1}",
    "null.length() == 0",
    "(1).try_or($o / 2) == 1",
];

const PLACES: &[&str] = &[
    "check if operation($o), ERROR; allow if true;",
    "check if operation($o), ERROR or true; allow if true;",
    "check all operation($o), ERROR; allow if true;",
    "check all operation($o), ERROR or operation($p); allow if true;",
    "reject if operation($o), ERROR; allow if true;",
    "deny if operation($o), ERROR; allow if true;",
    "allow if operation($o), ERROR; allow if true;",
    "allow if operation($o), request_port($p), ERROR, $p == 443; allow if true;",
    "reject if operation($o), request_port($p), ERROR, $p == 1; allow if true;",
    "bad($o) <- operation($o), ERROR; reject if bad($o); allow if true;",
    "bad($o) <- operation($o), ERROR; worse($o) <- bad($o); allow if true or worse(1);",
    "use_credential(\"hub/app\") <- operation($o), ERROR; allow if true;",
];
