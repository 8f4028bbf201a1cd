//! The evaluator against biscuit-auth (DESIGN §14), and what must hold of it by itself.
//!
//! `KLEIS_CASES=100000 cargo test --release differential` is the long run.

use std::time::Duration;

use biscuit_auth::builder::{AuthorizerBuilder, BlockBuilder};
use biscuit_auth::{AuthorizerLimits, Biscuit, KeyPair, error};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::generate::{Case, Choices};
use super::interner::{Layer, Terms};
use super::*;
use crate::facts::Fact;
use crate::policy::Limits;
use crate::service::Datalog;
use crate::token::{Block, ast};

/// No narrowing is known.
pub struct NoNarrowing;

impl Narrow for NoNarrowing {
    fn resolve(&mut self, _: &str) -> Result<usize, String> {
        Err("no narrowing here".to_owned())
    }
}

pub fn parse(text: &str) -> Option<Datalog> {
    Datalog::parse(text, "case").ok()
}

/// Ground facts of a parsed text.
pub fn facts_of(datalog: &Datalog) -> Vec<Fact> {
    let empty = Layer::default();
    let mut layer = Layer::default();
    let mut terms = Terms::new(&empty, &mut layer);
    let fact = |fact: &ast::Fact| {
        let row = fact.predicate.terms.iter().map(|term| {
            let word = terms.ast(term).unwrap();
            terms.to_term(word)
        });
        Fact::new(fact.predicate.name.as_str(), row.collect::<Vec<_>>())
    };
    datalog.facts.iter().map(|placed| &placed.statement).map(fact).collect()
}

pub fn block_of(text: &str) -> Option<Block> {
    let datalog = parse(text)?;
    Some(Block {
        facts: facts_of(&datalog),
        rules: datalog.rules.iter().map(|rule| rule.statement.clone()).collect(),
        checks: datalog.checks.iter().map(|check| check.statement.clone()).collect(),
        third_party: false,
    })
}

pub fn machine(authorizer: &Datalog, blocks: &[Block], keep_unread: bool) -> Result<Machine, MachineError> {
    let input = Input {
        files: &[authorizer],
        blocks,
        facts: &[],
        without: &[],
        roots: &[],
        keep_unread,
        max_regex: (1 << 20, 1 << 16),
    };
    Machine::compile(&input, &mut NoNarrowing)
}

/// Runs with all facts shared, or with those from `split` on as an item's.
pub fn run(machine: &Machine, facts: &[Fact], split: usize, limits: &Limits) -> Result<Verdict, Stop> {
    let mut scratch = Scratch::default();
    let mut run = Run::new(machine, &mut scratch, limits);
    let (shared, item) = facts.split_at(split.min(facts.len()));
    run.share(0, None, shared.iter())?;
    run.begin_item(item.iter())?;
    let verdict = run.judge();
    run.end_item();
    verdict
}

#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Verdict { failed: Vec<(Option<u32>, u32)>, policy: Option<(bool, usize)> },
    Error,
    Limit,
}

fn ours(machine: &Machine, result: Result<Verdict, Stop>) -> Answer {
    match result {
        Ok(verdict) => {
            let place = |index: &usize| {
                let place = machine.checks[*index].place;
                let block = match place.owner {
                    Owner::File(_) => None,
                    Owner::Block(block) => Some(block as u32),
                };
                (block, place.index as u32)
            };
            let mut failed: Vec<_> = verdict.failed.iter().map(place).collect();
            failed.sort();
            Answer::Verdict { failed, policy: verdict.policy.map(|policy| (verdict.allows, policy)) }
        }
        Err(Stop { fault: Fault::Error(_), .. }) => Answer::Error,
        Err(Stop { fault: Fault::Fuel(_), .. }) => Answer::Limit,
    }
}

/// biscuit-auth's answer.
fn oracle(case: &Case) -> Option<Answer> {
    let root = KeyPair::new();
    let mut blocks = case.blocks.iter();
    let mut token = Biscuit::builder().code(blocks.next()?).ok()?.build(&root).ok()?;
    for block in blocks {
        token = token.append(BlockBuilder::new().code(block).ok()?).ok()?;
    }
    let limits = AuthorizerLimits { max_facts: 100_000, max_iterations: 1_000, max_time: Duration::from_secs(600) };
    let source = format!("{}\n{}", case.facts.concat(), case.authorizer);
    let mut authorizer = AuthorizerBuilder::new().code(source).ok()?.set_limits(limits).build(&token).ok()?;
    Some(match authorizer.authorize() {
        Ok(policy) => Answer::Verdict { failed: Vec::new(), policy: Some((true, policy)) },
        Err(error::Token::FailedLogic(error::Logic::Unauthorized { policy, checks })) => {
            let policy = match policy {
                error::MatchedPolicy::Allow(index) => (true, index),
                error::MatchedPolicy::Deny(index) => (false, index),
            };
            Answer::Verdict { failed: places(&checks), policy: Some(policy) }
        }
        Err(error::Token::FailedLogic(error::Logic::NoMatchingPolicy { checks })) => {
            Answer::Verdict { failed: places(&checks), policy: None }
        }
        Err(error::Token::Execution(_)) => Answer::Error,
        Err(error::Token::RunLimit(_)) => Answer::Limit,
        Err(_) => return None,
    })
}

fn places(checks: &[error::FailedCheck]) -> Vec<(Option<u32>, u32)> {
    let mut places: Vec<_> = checks
        .iter()
        .map(|check| match check {
            error::FailedCheck::Block(check) => (Some(check.block_id), check.check_id),
            error::FailedCheck::Authorizer(check) => (None, check.check_id),
        })
        .collect();
    places.sort();
    places
}

fn limits() -> Limits {
    Limits { policy_fuel: 30_000, token_fuel: 30_000, max_derived: 400, max_token_derived: 400, ..Limits::default() }
}

struct Compiled {
    authorizer: Datalog,
    blocks: Vec<Block>,
    facts: Vec<Fact>,
}

fn compile_case(case: &Case) -> Option<Compiled> {
    let authorizer = parse(&case.authorizer)?;
    let blocks = case.blocks.iter().map(|block| block_of(block)).collect::<Option<Vec<_>>>()?;
    Some(Compiled { authorizer, blocks, facts: facts_of(&parse(&case.facts.concat())?) })
}

pub fn cases(normal: u32) -> u32 {
    std::env::var("KLEIS_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(normal)
}

/// The normal run is the same each time; a long one (`KLEIS_CASES`) looks elsewhere each time.
fn config() -> ProptestConfig {
    let long = std::env::var_os("KLEIS_CASES").is_some();
    let rng_seed = if long { RngSeed::Random } else { RngSeed::Fixed(1) };
    ProptestConfig {
        cases: cases(2_000),
        max_global_rejects: 4_000_000,
        rng_seed,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 60..320)
}

/// Whether biscuit-auth finds the error too. It stops a query at the first match or error, in whatever order
/// its facts come; but it runs rules to their end. So the statement's bodies are added as rules.
fn oracle_finds_it(case: &Case, compiled: &Compiled, place: Option<Place>) -> bool {
    let Some(place) = place else { return false };
    let mut case = case.clone();
    let queries = match (place.owner, place.what) {
        (_, What::Rule | What::Fact) => Vec::new(),
        (Owner::File(_), What::Check) => compiled.authorizer.checks[place.index].statement.queries.clone(),
        (Owner::File(_), What::Policy) => compiled.authorizer.policies[place.index].statement.queries.clone(),
        (Owner::Block(block), _) => compiled.blocks[block].checks[place.index].queries.clone(),
    };
    let text = match place.owner {
        Owner::File(_) => &mut case.authorizer,
        Owner::Block(block) => &mut case.blocks[block],
    };
    for mut query in queries {
        query.head = ast::pred("found", &[ast::int(0)]);
        text.push_str(&format!("{};\n", crate::token::print_rule(&query)));
    }
    oracle(&case) == Some(Answer::Error)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_same_decision_and_the_same_failed_checks_as_biscuit_auth(bytes in bytes()) {
        let case = Choices::new(&bytes).case();
        let Some(compiled) = compile_case(&case) else { return Err(TestCaseError::reject("does not parse")) };
        let all = machine(&compiled.authorizer, &compiled.blocks, true);
        let Ok(all) = all else { return Err(TestCaseError::reject("does not compile")) };
        let result = run(&all, &compiled.facts, usize::MAX, &limits());
        let place = result.as_ref().err().and_then(|stop| stop.place);
        let answer = ours(&all, result);
        if answer == Answer::Limit {
            return Err(TestCaseError::reject("too expensive"));
        }
        let expected = oracle(&case).ok_or_else(|| TestCaseError::reject("biscuit-auth does not take it"))?;
        match (&answer, &expected) {
            (Answer::Error, Answer::Error) => {}
            (Answer::Error, _) => {
                prop_assert!(oracle_finds_it(&case, &compiled, place), "{case:#?}\nours: error, theirs: {expected:?}");
            }
            // what biscuit-auth found depends on its order; ours must then be the error
            _ => prop_assert_eq!(&answer, &expected, "{:#?}", case),
        }
        // an unread rule that errors changes nothing; everything else is the same
        let read = machine(&compiled.authorizer, &compiled.blocks, false).unwrap();
        let pruned = ours(&read, run(&read, &compiled.facts, usize::MAX, &limits()));
        if answer != Answer::Error {
            prop_assert_eq!(&pruned, &answer, "{:#?}", case);
        }
        // an item's facts on top of shared ones are all facts together
        let split = bytes.first().map_or(0, |b| usize::from(*b) % (compiled.facts.len() + 1));
        let in_parts = ours(&all, run(&all, &compiled.facts, split, &limits()));
        prop_assert_eq!(in_parts, answer, "{:#?}\nsplit at {}", case, split);
    }

    #[test]
    fn a_block_more_never_turns_a_refusal_into_an_allow(bytes in bytes(), more in bytes()) {
        let case = Choices::new(&bytes).case();
        let block = Choices::new(&more).case().blocks.concat();
        let (Some(compiled), Some(block)) = (compile_case(&case), block_of(&block)) else {
            return Err(TestCaseError::reject("does not parse"));
        };
        let Ok(parent) = machine(&compiled.authorizer, &compiled.blocks, false) else {
            return Err(TestCaseError::reject("does not compile"));
        };
        let mut blocks = compiled.blocks.clone();
        blocks.push(block);
        let Ok(child) = machine(&compiled.authorizer, &blocks, false) else { return Ok(()) };
        let allows = |machine: &Machine| run(machine, &compiled.facts, 0, &limits()).is_ok_and(|v| v.is_allow());
        prop_assert!(!allows(&child) || allows(&parent), "{case:#?}");
    }

    #[test]
    fn fewer_shared_facts_or_more_than_one_item_leave_no_trace(bytes in bytes()) {
        // items are judged one after another in one run, and each alone: the answers are the same
        let case = Choices::new(&bytes).case();
        let Some(compiled) = compile_case(&case) else { return Err(TestCaseError::reject("does not parse")) };
        let Ok(machine) = machine(&compiled.authorizer, &compiled.blocks, false) else {
            return Err(TestCaseError::reject("does not compile"));
        };
        let third = compiled.facts.len() / 3;
        let (shared, rest) = compiled.facts.split_at(third);
        let (one, two) = rest.split_at(rest.len() / 2);
        let alone = |item: &[Fact]| {
            let facts: Vec<Fact> = shared.iter().chain(item).cloned().collect();
            run(&machine, &facts, third, &limits())
        };
        let mut scratch = Scratch::default();
        let mut both = Run::new(&machine, &mut scratch, &limits());
        if both.share(0, None, shared.iter()).is_err() {
            return Ok(());
        }
        for item in [one, two, one] {
            let together = both.begin_item(item.iter()).and_then(|()| both.judge());
            both.end_item();
            match (together, alone(item)) {
                (Ok(together), Ok(alone)) => prop_assert_eq!(together, alone, "{:#?}", case),
                (Err(Stop { fault: Fault::Fuel(_), .. }), _) => return Ok(()),
                (Err(_), Err(_)) => return Ok(()),
                (together, alone) => prop_assert!(false, "{together:?} {alone:?} {case:#?}"),
            }
        }
    }
}

/// The generator must reach every kind of answer, or the comparison shows nothing.
#[test]
fn the_generated_cases_are_of_every_kind() {
    let (mut seed, mut counts) = (1u64, [0u32; 5]);
    for _ in 0..4_000 {
        let bytes: Vec<u8> = (0..240)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 56) as u8
            })
            .collect();
        let Some(compiled) = compile_case(&Choices::new(&bytes).case()) else { continue };
        let Ok(machine) = machine(&compiled.authorizer, &compiled.blocks, true) else { continue };
        let kind = match run(&machine, &compiled.facts, usize::MAX, &limits()) {
            Ok(verdict) if verdict.is_allow() => 0,
            Ok(verdict) if !verdict.failed.is_empty() => 1,
            Ok(_) => 2,
            Err(Stop { fault: Fault::Error(_), .. }) => 3,
            Err(Stop { fault: Fault::Fuel(_), .. }) => 4,
        };
        counts[kind] += 1;
    }
    println!("allow, failed checks, no policy, error, too expensive: {counts:?}");
    assert!(counts[..4].iter().all(|count| *count > 50), "{counts:?}");
}
