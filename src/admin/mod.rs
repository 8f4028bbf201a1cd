//! The daemon: what starts it, what it answers about itself, and the door for its operator (DESIGN §11,
//! §15).
//!
//! Layer 3. [`daemon::Daemon`] joins all rooms into a running proxy; `bin/kleisd.rs` starts one, and so do the
//! demo and `kleis run` in a process of their own.

mod control;
pub mod daemon;
pub mod endpoints;
pub mod metrics;
mod status;
