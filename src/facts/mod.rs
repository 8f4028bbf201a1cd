//! What is known about a request, as datalog facts (DESIGN §5 and §6).
//!
//! Layer 1, pure. [`RequestView`] is what the proxy read, [`Path`] and [`Query`] are its target in the
//! one form that is both judged and sent, and [`RequestFacts`] is what a decision is made from: facts
//! that all items share, and for each item its own.

mod demand;
mod fact;
mod request;
mod term;

pub use demand::Demand;
pub use fact::{Fact, Item, RequestFacts};
pub use request::{Body, RequestView};
pub use term::{Key, Term};
