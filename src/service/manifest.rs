//! A service: its manifest, parsed and checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::decoding::DecoderRule;
use super::index::RouteIndex;
use super::pattern::Taste;
use super::refusal::Dialects;
use super::route::Route;
use super::{Datalog, Injection, Selector, Setup, TextTemplate, Verb};
use crate::wire::BodyPaths;
use crate::words::{Authority, FileError, HostPattern, ServiceName};

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
    pub(super) routes: Vec<Route>,
    pub(super) index: RouteIndex,
    pub(super) decoders: Vec<DecoderRule>,
    pub(super) dialects: Dialects,
    pub(super) taste: Taste,
    pub(super) method_override: Vec<Arc<str>>,
    pub(super) operations: BTreeSet<Arc<str>>,
    pub(super) reserved: BTreeSet<Arc<str>>,
    pub(super) exec_commands: Vec<Arc<str>>,
    pub(super) warnings: Vec<FileError>,
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

    /// Every operation that a route emits.
    pub fn operations(&self) -> &BTreeSet<Arc<str>> {
        &self.operations
    }

    /// Predicates that this manifest gives meaning to (`emit`, `on_success`, heads of its datalog,
    /// `resources`, selectors): an issuer may not state them, and a policy may read them.
    pub fn reserved(&self) -> &BTreeSet<Arc<str>> {
        &self.reserved
    }

    /// Commands of `exec:` decoders: not empty needs `allow_exec` in the configuration (invariant 7).
    pub fn exec_commands(&self) -> &[Arc<str>] {
        &self.exec_commands
    }

    /// Whether it has an `exec:` decoder.
    pub fn uses_exec(&self) -> bool {
        !self.exec_commands().is_empty()
    }

    /// What is legal and probably not meant; `kleis service check` prints it.
    pub fn warnings(&self) -> &[FileError] {
        &self.warnings
    }
}
