//! Configuration: files to one immutable snapshot (DESIGN §15).
//!
//! Layer 2. [`Home`] knows where things are; [`load`] reads everything below `config/` and answers with a
//! [`Snapshot`] or with all that is wrong in all files; [`Live`] holds the snapshot in force and swaps it
//! as a whole, so that a request sees one configuration from beginning to end, and a reload that fails
//! changes nothing and is visible (invariant 10).

mod check;
mod declared;
mod files;
mod home;
mod issuer;
mod listen;
mod live;
mod read;
mod settings;
mod snapshot;
#[cfg(test)]
mod tests;
mod watch;

pub use home::{Home, HomeError};
pub use issuer::{Issuer, NamePattern};
pub use listen::{Listen, ListenAddress, PublicUrl, Role};
pub use live::{Live, Outcome, Reload};
pub use settings::{AuditFacts, Config, Limits, ModeSetting, UpstreamSettings};
pub use snapshot::{Snapshot, load, load_beside};
pub use watch::Watcher;
