//! The command line (DESIGN §18).

pub mod args;
pub mod demo;
pub mod input;
pub mod origin;
pub mod terminal;
