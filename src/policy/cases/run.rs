//! Running a test file.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::{CryptoRng, RngCore};

use super::{Case, CaseFile, Expect, Judged, Setting, judge};
use crate::policy::allow::AllowLine;
use crate::policy::spec::Gives;
use crate::policy::{Accounts, CredentialChoice, Decision, Rulebook};
use crate::token::{Candidates, Claims, MintError, RootKeys, TokenError, VerifiedToken, mint, verify};
use crate::words::{Authority, CredentialName, FileErrors, ServiceName, Timestamp};

/// What came of a test file.
#[derive(Debug)]
pub struct Report {
    /// In the order of the cases.
    pub results: Vec<CaseResult>,
}

/// What came of a case.
#[derive(Debug)]
pub struct CaseResult {
    /// The case.
    pub case: Case,
    /// What was decided.
    pub judged: Judged,
    /// What is not as expected, in a line; `None`: it passed.
    pub problem: Option<String>,
}

/// Why a test file can't be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It names what is not there.
    #[error(transparent)]
    File(#[from] FileErrors),
    /// A token can't say what the file wants.
    #[error("no token can be made for this: {0}")]
    Mint(#[from] MintError),
    /// It can't be read back.
    #[error("no token can be made for this: {0}")]
    Token(#[from] TokenError),
}

impl Report {
    /// How many passed.
    pub fn passed(&self) -> usize {
        self.results.iter().filter(|result| result.problem.is_none()).count()
    }

    /// How many did not.
    pub fn failed(&self) -> usize {
        self.results.len() - self.passed()
    }
}

/// Runs every case. `known` are the credentials that exist; a service that has none there is given one,
/// so that a policy can be tested where no secret is. `passes` is the configuration's `passthrough`.
pub fn run(
    file: &CaseFile,
    rulebook: &Arc<Rulebook>,
    known: impl IntoIterator<Item = (ServiceName, CredentialName)>,
    passes: &dyn Fn(&Authority) -> bool,
    now: Timestamp,
    rng: &mut (impl RngCore + CryptoRng),
) -> Result<Report, RunError> {
    check_names(file, rulebook)?;
    let accounts = accounts(file, rulebook, known);
    let keys = RootKeys::generate(rng);
    let now = file.time.unwrap_or(now);
    let mut results = Vec::with_capacity(file.cases.len());
    for case in &file.cases {
        let token = token(file, case, &keys, now, rng)?;
        let setting = Setting {
            rulebook,
            accounts: &accounts,
            account: case.account.as_deref(),
            passes,
            max_body: 32 << 20,
            now,
            all_facts: false,
        };
        let judged = judge(&setting, &token, &case.request);
        let problem = problem(&case.expect, &judged.decision);
        results.push(CaseResult { case: case.clone(), judged, problem });
    }
    Ok(Report { results })
}

/// Names that don't exist would be refusals, and a file of expected refusals would pass.
fn check_names(file: &CaseFile, rulebook: &Rulebook) -> Result<(), FileErrors> {
    let mut errors = FileErrors::default();
    let mut complain = |message: String| errors.extend(FileErrors::one(&file.file, message));
    match &file.candidates {
        Candidates::Spec(name) if rulebook.spec(name).is_none() => complain(format!("there is no spec `{name}`")),
        Candidates::Spec(_) => {}
        Candidates::Grants(names) => {
            let missing = names.iter().filter(|name| rulebook.grant(name).is_none());
            missing.for_each(|name| complain(format!("there is no grant `{name}`")));
        }
    }
    for line in &file.narrow {
        let resolved = AllowLine::parse(line).and_then(|line| line.resolve(rulebook.catalog()));
        if let Err(error) = resolved {
            complain(format!("`narrow`: {line}: {}", error.message));
        }
    }
    for fact in file.facts.iter().chain(file.cases.iter().flat_map(|case| &case.facts)) {
        if rulebook.is_reserved(&fact.predicate) {
            complain(format!(
                "no token states `{}`: the proxy, a manifest or a grant gives it its meaning",
                fact.predicate
            ));
        }
    }
    errors.into_result()
}

fn token(
    file: &CaseFile,
    case: &Case,
    keys: &RootKeys,
    now: Timestamp,
    rng: &mut (impl RngCore + CryptoRng),
) -> Result<VerifiedToken, RunError> {
    let claims = Claims {
        candidates: file.candidates.clone(),
        bearer: file.bearer.clone(),
        issued_by: None,
        facts: file.facts.iter().chain(&case.facts).cloned().collect(),
        expires: now.saturating_add(3600),
        narrowings: file.narrow.clone(),
        checks: Vec::new(),
    };
    Ok(verify(mint(keys, &claims, rng)?.token.as_str(), keys)?)
}

/// The known credentials, and for a service without any those that the policy names, or one.
fn accounts(
    file: &CaseFile,
    rulebook: &Rulebook,
    known: impl IntoIterator<Item = (ServiceName, CredentialName)>,
) -> Accounts {
    let mut by_service: BTreeMap<ServiceName, Vec<CredentialName>> = BTreeMap::new();
    for (service, name) in known {
        by_service.entry(service).or_default().push(name);
    }
    for service in rulebook.catalog().iter().map(|service| service.name()) {
        if by_service.contains_key(service) {
            continue;
        }
        let mut names: Vec<CredentialName> = named_accounts(file, rulebook, service);
        if names.is_empty() {
            names.extend(CredentialName::parse(&format!("{service}/test")));
        }
        by_service.insert(service.clone(), names);
    }
    let pairs =
        by_service.into_iter().flat_map(|(service, names)| names.into_iter().map(move |name| (service.clone(), name)));
    Accounts::new(pairs)
}

/// The accounts that the spec's lines name.
fn named_accounts(file: &CaseFile, rulebook: &Rulebook, service: &ServiceName) -> Vec<CredentialName> {
    let Candidates::Spec(name) = &file.candidates else {
        return Vec::new();
    };
    let entries = rulebook.spec(name).map(|spec| spec.entries.as_slice()).unwrap_or_default();
    let accounts = entries.iter().filter_map(|entry| match &entry.gives {
        Gives::Allow(line) if line.service.word == *service => line.account.as_deref(),
        Gives::Allow(_) | Gives::Grant(_) => None,
    });
    accounts.filter_map(|account| CredentialName::parse(&format!("{service}/{account}")).ok()).collect()
}

fn problem(expect: &Expect, decision: &Decision) -> Option<String> {
    match (expect, decision) {
        (Expect::Allow(None), Decision::Permit(_)) | (Expect::Deny(None), Decision::Denial(_)) => None,
        (Expect::Allow(Some(wanted)), Decision::Permit(permit)) => match permit.credential() {
            CredentialChoice::Named(name) if name == wanted => None,
            CredentialChoice::Named(name) => Some(format!("goes out on `{name}`, expected `{wanted}`")),
            CredentialChoice::Anonymous => Some(format!("goes out without a credential, expected `{wanted}`")),
        },
        (Expect::Deny(Some(wanted)), Decision::Denial(denial)) if denial.reason == *wanted => None,
        (Expect::Deny(Some(wanted)), Decision::Denial(denial)) => {
            Some(format!("denied because of `{}`, expected `{wanted}`: {}", denial.reason, denial.message))
        }
        (Expect::Allow(_), Decision::Denial(denial)) => {
            Some(format!("denied (`{}`), expected to be allowed: {}", denial.reason, denial.message))
        }
        (Expect::Deny(_), Decision::Permit(_)) => Some("allowed, expected to be denied".to_owned()),
    }
}
