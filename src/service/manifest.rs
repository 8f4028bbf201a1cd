//! A service: its manifest, parsed and checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Datalog, Dialect, Injection, Reading, ReadingError, Selector, Setup, TextTemplate, Verb};
use crate::facts::{Body, Demand, Fact, Path, Query, RequestFacts, RequestView, Term};
use crate::wire::BodyPaths;
use crate::words::{Authority, FileErrors, HostPattern, ServiceName};

/// One upstream, as its manifest describes it.
#[derive(Debug)]
pub struct Service {
    pub(super) name: ServiceName,
    pub(super) file: Arc<str>,
    pub(super) version: Arc<str>,
    pub(super) about: String,
    pub(super) hosts: Vec<HostPattern>,
    pub(super) modes: Modes,
    pub(super) resources: Vec<Arc<str>>,
    pub(super) max_body_facts: usize,
    pub(super) max_decode_prefix: usize,
    pub(super) body_paths: BodyPaths,
    pub(super) datalog: Datalog,
    pub(super) provider: Arc<str>,
    pub(super) credential_hosts: Vec<HostPattern>,
    pub(super) keep_cookies: bool,
    pub(super) strip_headers: Vec<Arc<str>>,
    pub(super) strip_query: Vec<Arc<str>>,
    pub(super) injections: Vec<Injection>,
    pub(super) verbs: Vec<Verb>,
    pub(super) selectors: Vec<Selector>,
    pub(super) setup: Setup,
    pub(super) card: Option<TextTemplate>,
    pub(super) warnings: Vec<String>,
}

/// How requests to a service may arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// As `/<scheme>/<host>/<path>`.
    pub rewrite: bool,
    /// Through a tunnel, or in absolute-form.
    pub connect: bool,
}

impl Service {
    /// Reads a manifest; all that is wrong with it comes at once.
    pub fn parse(text: &str, file: &str) -> Result<Service, FileErrors> {
        let _ = (text, file);
        todo!()
    }

    /// Its name.
    pub fn name(&self) -> &ServiceName {
        &self.name
    }

    /// The file it was read from, as the operator knows it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// SHA-256 of the file, the first 16 hex digits.
    pub fn version(&self) -> &Arc<str> {
        &self.version
    }

    /// One line about it.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// What it claims.
    pub fn hosts(&self) -> &[HostPattern] {
        &self.hosts
    }

    /// How requests may arrive.
    pub fn modes(&self) -> Modes {
        self.modes
    }

    /// Predicates that name what a request is about.
    pub fn resources(&self) -> &[Arc<str>] {
        &self.resources
    }

    /// More nodes than this make a body `body_truncated(true)`.
    pub fn max_body_facts(&self) -> usize {
        self.max_body_facts
    }

    /// Bytes within which a prefix decoder must have come to its end.
    pub fn max_decode_prefix(&self) -> usize {
        self.max_decode_prefix
    }

    /// Which nodes of a body are kept, and what the routes themselves look at.
    pub fn body_paths(&self) -> &BodyPaths {
        &self.body_paths
    }

    /// Facts and rules, never a check or a policy (invariant 7).
    pub fn datalog(&self) -> &Datalog {
        &self.datalog
    }

    /// The provider of a credential for it, unless the credential says another.
    pub fn provider(&self) -> &Arc<str> {
        &self.provider
    }

    /// The only places a secret may go. Sealed with a credential when it is added.
    pub fn credential_hosts(&self) -> &[HostPattern] {
        &self.credential_hosts
    }

    /// Whether a secret may go to this authority, as far as the manifest goes (invariant 2: in force is
    /// manifest ∩ sealed).
    pub fn may_send_secret_to(&self, authority: &Authority) -> bool {
        self.credential_hosts.iter().any(|host| host.matches(authority))
    }

    /// What is injected at this authority for a credential of this kind: for each place of the request the
    /// rule with the most specific host. Empty where no secret goes, and on clear text without opt-in.
    pub fn injections(&self, authority: &Authority, kind: &str) -> Vec<&Injection> {
        let _ = (authority, kind);
        todo!()
    }

    /// Whether a client's header of that (lower-case) name is taken off: credentials, cookies unless kept,
    /// what the manifest lists, and whatever an injection fills anywhere.
    pub fn strips_header(&self, name: &str) -> bool {
        let _ = name;
        todo!()
    }

    /// Whether a query key is taken off: what the manifest lists, and whatever an injection fills there.
    pub fn strips_query(&self, authority: &Authority, key: &str) -> bool {
        let _ = (authority, key);
        todo!()
    }

    /// Matches a request's head against the routes.
    pub fn reading(&self, view: &RequestView<'_>, path: &Path, query: &Query) -> Result<Reading, ReadingError> {
        let _ = (view, path, query);
        todo!()
    }

    /// Everything a decision reads: standard facts, and what the routes emit, in items (DESIGN §6).
    /// Fails on a `_method` in a form that the manifest does not name.
    pub fn facts(
        &self,
        view: &RequestView<'_>,
        path: &Path,
        query: &Query,
        reading: &Reading,
        body: Body,
        demand: &Demand,
    ) -> Result<RequestFacts, ReadingError> {
        let _ = (view, path, query, reading, body, demand);
        todo!()
    }

    /// Facts to remember for the token after a 2xx. `response` is the answer's body, if
    /// [`Reading::wants_response`] and it could be decoded.
    pub fn on_success(&self, reading: &Reading, body: &Body, response: Option<&Term>) -> Vec<Fact> {
        let _ = (reading, body, response);
        todo!()
    }

    /// Verbs, in the order of the file.
    pub fn verbs(&self) -> &[Verb] {
        &self.verbs
    }

    /// The verb of that name.
    pub fn verb(&self, name: &str) -> Option<&Verb> {
        self.verbs.iter().find(|verb| &**verb.name() == name)
    }

    /// Selectors, in the order of the file.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The selector of that name.
    pub fn selector(&self, name: &str) -> Option<&Selector> {
        self.selectors.iter().find(|selector| &**selector.name() == name)
    }

    /// What a sandbox needs.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The card's text: a template over `service`, `account`, `config`, `facts`.
    pub fn card(&self) -> Option<&TextTemplate> {
        self.card.as_ref()
    }

    /// How this request's client wants to be told no. `path` is `None` where it could not be parsed.
    pub fn refusal(&self, method: &str, authority: &Authority, path: Option<&Path>) -> Option<&Dialect> {
        let _ = (method, authority, path);
        todo!()
    }

    /// Every operation that a route emits.
    pub fn operations(&self) -> &BTreeSet<Arc<str>> {
        todo!()
    }

    /// Predicates that this manifest gives meaning to (`emit`, `on_success`, heads of its datalog,
    /// `resources`, selectors): an issuer may not state them, and a policy may read them.
    pub fn reserved(&self) -> &BTreeSet<Arc<str>> {
        todo!()
    }

    /// Commands of `exec:` decoders: not empty needs `allow_exec` in the configuration (invariant 7).
    pub fn exec_commands(&self) -> &[Arc<str>] {
        todo!()
    }

    /// Whether it has an `exec:` decoder.
    pub fn uses_exec(&self) -> bool {
        !self.exec_commands().is_empty()
    }

    /// What is legal and probably not meant; `kleis service check` prints it.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
