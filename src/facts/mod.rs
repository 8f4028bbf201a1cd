//! What is known about a request, as datalog facts (DESIGN §5 and §6).
//!
//! Layer 1, pure. [`RequestView`] is what the proxy read, [`Path`] and [`Query`] are its target in the
//! one form that is both judged and sent, and [`RequestFacts`] is what a decision is made from: facts
//! that all items share, and for each item its own.

mod demand;
mod fact;
mod overriding;
mod path;
pub(crate) mod percent;
mod query;
mod request;
mod standard;
mod term;
mod tree;

pub use demand::Demand;
pub use fact::{Fact, Item, RequestFacts};
pub use overriding::{MethodOverride, method_override};
pub use path::{Path, PathError};
pub use query::{Query, QueryError};
pub use request::{Body, RequestView};
pub use standard::{Hidden, STANDARD_PREDICATES, standard, visible};
pub use term::{Key, Term};
pub use tree::{body_nodes, body_shapes, count_nodes, lookup};
