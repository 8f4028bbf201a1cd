//! The command line (DESIGN §18).

pub mod demo;
pub mod origin;
