//! Which credential an item is spent on, and how far it is narrowed (DESIGN §8).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::allow::joined;
use super::datalog::Run;
use super::grant::{Fallback, Narrow, RouteChoice, Unresolved};
use super::rulebook::USE_CREDENTIAL;
use super::{CredentialChoice, Grant, Narrowing, Situation};
use crate::facts::{Fact, Term};
use crate::policy::allow::ResolvedLine;
use crate::service::Service;
use crate::words::{CredentialName, Reason};

/// Why no credential was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoChoice {
    pub(super) reason: Reason,
    pub(super) message: String,
}

fn refuse<T>(message: String) -> Result<T, NoChoice> {
    Err(NoChoice { reason: Reason::PolicyDenied, message })
}

/// A grant's choice: the most specific route that matches all resources, then what its rules say, then
/// its fallback.
pub(super) fn of_grant(
    grant: &Grant,
    service: &Service,
    resources: &[Fact],
    run: &Run<'_, '_>,
) -> Result<CredentialChoice, NoChoice> {
    if !grant.routes.is_empty() {
        // a resource without a text can match no pattern, so that no route matches all
        let texts: Option<Vec<String>> = resources.iter().map(|fact| joined(&fact.terms)).collect();
        if let Some(texts) = texts {
            match grant.route(&texts, ignores_case(service)) {
                RouteChoice::One(credential) => return Ok(CredentialChoice::Named(credential.clone())),
                RouteChoice::Tie(one, other) => {
                    return refuse(format!(
                        "two credential routes of the grant {} match equally well: {one} and {other}",
                        grant.name
                    ));
                }
                RouteChoice::None => {}
            }
        }
    }
    if let Some(credential) = of_rules(grant, run)? {
        return Ok(CredentialChoice::Named(credential));
    }
    match &grant.fallback {
        Fallback::Credential(name) => Ok(CredentialChoice::Named(name.clone())),
        Fallback::Anonymous => Ok(CredentialChoice::Anonymous),
        Fallback::Nothing => refuse(format!("the grant {} has no credential for this", grant.name)),
    }
}

fn of_rules(grant: &Grant, run: &Run<'_, '_>) -> Result<Option<CredentialName>, NoChoice> {
    let mut names: BTreeSet<CredentialName> = BTreeSet::new();
    let mut wrong = None;
    run.ruled(USE_CREDENTIAL, &mut |terms| match terms {
        [Term::Str(text)] => match CredentialName::parse(text) {
            Ok(name) if grant.choices.contains(&name) => {
                names.insert(name);
            }
            _ => wrong = Some(crate::token::printable(text)),
        },
        _ => wrong = Some("something else than a name".to_owned()),
    });
    if let Some(wrong) = wrong {
        return refuse(format!("the grant {} chooses `{wrong}`, which its `credentials` don't list", grant.name));
    }
    let mut names = names.into_iter();
    match (names.next(), names.next()) {
        (Some(one), Some(other)) => {
            refuse(format!("rules of the grant {} choose two credentials: {one} and {other}", grant.name))
        }
        (one, _) => Ok(one),
    }
}

/// An allow line's choice: the account that it names, or the service's only one.
pub(super) fn of_line(
    line: &ResolvedLine,
    service: &Service,
    situation: &Situation<'_>,
) -> Result<CredentialChoice, NoChoice> {
    let accounts = situation.accounts.of(service.name());
    let matching: Vec<&CredentialName> =
        accounts.iter().filter(|name| line.account().is_none_or(|account| name.account() == account)).collect();
    let missing = |message: String| Err(NoChoice { reason: Reason::CredentialMissing, message });
    match (matching.as_slice(), line.account()) {
        ([one], _) => Ok(CredentialChoice::Named((*one).clone())),
        ([], Some(account)) => missing(format!("there is no credential `{}/{account}`", service.name())),
        ([], None) => missing(format!("there is no credential for {}", service.name())),
        ([one, other, ..], _) => {
            refuse(format!("the line `{}` must name an account, now that there are {one} and {other}", line.line()))
        }
    }
}

/// Whether the chosen credential is that account's.
pub(super) fn is_account(choice: &CredentialChoice, account: &str) -> bool {
    match choice {
        CredentialChoice::Named(name) => name.account() == account,
        CredentialChoice::Anonymous => false,
    }
}

/// Whether the service's resources are compared without regard to case.
fn ignores_case(service: &Service) -> bool {
    let about_resources = |selector: &&crate::service::Selector| service.resources().contains(selector.predicate());
    service.selectors().iter().filter(about_resources).any(|selector| selector.ignores_case())
}

/// What an item is about, as placeholders see it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct About {
    owner: Arc<str>,
    repo: Option<Arc<str>>,
}

/// What the provider is asked for, from the resources of all items.
///
/// A resource of one term names an owner; one of two an owner and what is theirs. `{repo}` is taken from
/// the service's first resource predicate only: the others name what does not exist yet, or what is
/// larger than a repository.
pub(super) fn narrowing(
    narrow: Option<&Narrow>,
    service: &Service,
    items: &[Vec<Fact>],
) -> Result<Narrowing, NoChoice> {
    let about: Vec<Vec<About>> = items.iter().map(|facts| abouts(service, facts)).collect();
    let mut narrowing = Narrowing { owner: only_owner(service, &about), ..Narrowing::default() };
    let Some(narrow) = narrow else { return Ok(narrowing) };
    narrowing.permissions = narrow.permissions.clone();
    let Some(templates) = &narrow.repositories else { return Ok(narrowing) };
    let mut repositories = BTreeSet::new();
    for item in &about {
        let known: Vec<&About> = item.iter().filter(|about| about.repo.is_some()).collect();
        for template in templates {
            let plain = template.fill(None, None);
            let filled: Vec<String> = match plain {
                Some(text) => vec![text],
                None => {
                    let fill = |about: &&About| template.fill(Some(&about.owner), about.repo.as_deref());
                    let of_repos: Vec<String> = known.iter().filter_map(fill).collect();
                    if of_repos.is_empty() { item.iter().filter_map(|about| fill(&about)).collect() } else { of_repos }
                }
            };
            if filled.is_empty() {
                return unresolved(narrow, narrowing);
            }
            repositories.extend(filled.into_iter().map(Arc::from));
        }
    }
    // repositories are names without their owner: of two owners they would mean something else
    if repositories.is_empty() || (narrowing.owner.is_none() && about.iter().any(|item| !item.is_empty())) {
        return unresolved(narrow, narrowing);
    }
    narrowing.repositories = Some(repositories.into_iter().collect());
    Ok(narrowing)
}

fn unresolved(narrow: &Narrow, narrowing: Narrowing) -> Result<Narrowing, NoChoice> {
    match narrow.unresolved {
        Unresolved::Whole => Ok(Narrowing { repositories: None, ..narrowing }),
        Unresolved::Refuse => {
            refuse("the grant narrows its credential to a repository, and this request names no single one".to_owned())
        }
    }
}

fn abouts(service: &Service, facts: &[Fact]) -> Vec<About> {
    let first = service.resources().first();
    let mut abouts: Vec<About> = facts
        .iter()
        .filter_map(|fact| match fact.terms.as_slice() {
            [Term::Str(owner)] => Some(About { owner: owner.clone(), repo: None }),
            [Term::Str(owner), Term::Str(repo)] => {
                let repo = (Some(&fact.predicate) == first).then(|| repo.clone());
                Some(About { owner: owner.clone(), repo })
            }
            _ => None,
        })
        .collect();
    abouts.sort();
    abouts.dedup();
    abouts
}

fn only_owner(service: &Service, items: &[Vec<About>]) -> Option<Arc<str>> {
    let ignore_case = ignores_case(service);
    let mut owners: BTreeMap<String, Arc<str>> = BTreeMap::new();
    for about in items.iter().flatten() {
        let key = if ignore_case { about.owner.to_lowercase() } else { about.owner.to_string() };
        owners.entry(key).or_insert_with(|| about.owner.clone());
    }
    match (owners.len(), owners.pop_first()) {
        (1, Some((_, owner))) => Some(owner),
        _ => None,
    }
}
