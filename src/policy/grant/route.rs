//! Which credential a resource is for: `[[credential_route]]`.

use super::super::allow::{GlobError, Pattern};
use crate::words::CredentialName;

/// One `[[credential_route]]`.
#[derive(Debug, Clone)]
pub struct CredentialRoute {
    /// Patterns over resources, as written.
    pub(super) resources: Vec<Glob>,
    /// The credential for them.
    pub credential: CredentialName,
}

/// One pattern, compiled for services that tell letter case apart and for those that don't.
#[derive(Debug, Clone)]
pub(super) struct Glob {
    pub(super) exact: Pattern,
    pub(super) any_case: Pattern,
}

impl Glob {
    pub(super) fn parse(text: &str) -> Result<Glob, GlobError> {
        Ok(Glob { exact: Pattern::parse(text, false)?, any_case: Pattern::parse(text, true)? })
    }
}

/// What the routes say about an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteChoice<'g> {
    /// No route matches all resources.
    None,
    /// This credential.
    One(&'g CredentialName),
    /// Routes that are equally specific name different credentials: a refusal, never a silent choice
    /// (R57).
    Tie(&'g CredentialName, &'g CredentialName),
}

impl CredentialRoute {
    /// The patterns, as written.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().map(|glob| glob.exact.as_str())
    }

    /// How specifically the route matches all the resources: as the least specific of its matches.
    fn specificity(&self, resources: &[String], ignore_case: bool) -> Option<usize> {
        let of_one = |resource: &String| {
            let matching = self.resources.iter().filter(|glob| {
                let pattern = if ignore_case { &glob.any_case } else { &glob.exact };
                pattern.matches(resource)
            });
            matching.map(|glob| glob.exact.specificity()).max()
        };
        resources.iter().map(of_one).collect::<Option<Vec<_>>>()?.into_iter().min()
    }
}

/// The most specific route that matches all resources.
pub(super) fn choose<'g>(routes: &'g [CredentialRoute], resources: &[String], ignore_case: bool) -> RouteChoice<'g> {
    let mut best: Option<usize> = None;
    let mut choice = RouteChoice::None;
    for route in routes {
        let Some(specificity) = route.specificity(resources, ignore_case) else { continue };
        let credential = &route.credential;
        if best.is_none_or(|best| specificity > best) {
            (best, choice) = (Some(specificity), RouteChoice::One(credential));
        } else if best == Some(specificity) {
            choice = match choice {
                RouteChoice::One(first) if first != credential => RouteChoice::Tie(first, credential),
                choice => choice,
            };
        }
    }
    choice
}
