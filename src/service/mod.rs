//! Services: one upstream each, described by a manifest (DESIGN §7).

mod datalog;

pub use datalog::{Datalog, Place, Placed, calls_extern, place_in};
