//! Services: one upstream each, described by a manifest (DESIGN §7).
//!
//! Layer 1, pure. A manifest says which hosts are claimed, where a secret may go and in which words, what
//! a request means (routes make facts of it), and how people speak of that (verbs, selectors, setup,
//! card, refusals). Nothing in the code of kleis knows an upstream by name.

mod capture;
mod catalog;
mod credential;
mod datalog;
mod decoding;
mod forbidden;
mod index;
mod injection;
mod items;
mod load;
mod manifest;
mod pattern;
mod reading;
mod refusal;
mod route;
mod setup;
mod steps;
mod template;
mod text;
mod verbs;
mod words;

#[cfg(test)]
mod tests;

pub use catalog::Catalog;
pub use datalog::{Datalog, Place, Placed, calls_extern, place_in};
pub use forbidden::forbidden_variable;
pub use injection::{Injection, Piece, SecretTemplate, Target};
pub use manifest::{Modes, Service};
pub use pattern::{PatternFault, RoutePattern};
pub use reading::{Reading, ReadingError};
pub use refusal::{Dialect, REFUSAL_VARIABLES, RefusalContext};
pub use setup::{SETUP_VARIABLES, Setup, SetupFile, forbidden_path};
pub use text::{TemplateError, TextTemplate};
pub use verbs::{Selector, Verb, VerbOperation};
