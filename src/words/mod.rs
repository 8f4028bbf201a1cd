//! The words that every room speaks: hosts, names, secrets, durations, reasons.
//!
//! Layer 0. Nothing here does I/O, reads a clock or knows a library of the wire; a value of one of
//! these types has been parsed once, at the edge, and is compared as a value from then on.

mod authority;
mod duration;
mod file_error;
mod names;
mod nearest;
mod pattern;
mod reason;
mod secret;
mod size;
pub mod strict_toml;

pub use authority::{Authority, AuthorityError, Host, Scheme};
pub use duration::{DurationError, format_duration, parse_duration};
pub use file_error::{FileError, FileErrors};
pub use names::{CredentialName, GrantName, IssuerName, NameError, ServiceName, SpecName};
pub use nearest::{distance, nearest};
pub use pattern::{HostPattern, PatternError};
pub use reason::Reason;
pub use secret::Secret;
pub use size::{SizeError, parse_size};

/// Seconds since the Unix epoch. The pure rooms never read a clock: whoever calls them passes one.
pub type Timestamp = u64;
