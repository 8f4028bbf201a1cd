//! `kleis demo`: the whole thing in a minute, on loopback, with no account.

pub mod github;
