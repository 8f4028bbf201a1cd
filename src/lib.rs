//! kleis: a credential proxy.
//!
//! Somebody installs a credential once; everybody else holds a token that says what may be done with
//! it, and keeps using `git`, `gh`, `curl`, SDKs and the real URLs. The credential never leaves the
//! proxy. `ARCHITECTURE.md` tells the story in five minutes; the rooms stand here in layers, and
//! imports go downward only (`tests/layering.rs`).

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        reason = "a test may panic"
    )
)]

// layer 0: words
pub mod words;

// layer 1: pure rooms
pub mod facts;
pub mod policy;
pub mod service;
pub mod token;
pub mod wire;

// layer 2: keeping
pub mod audit;
pub mod ca;
pub mod config;
pub mod credential;
pub mod operator;
pub mod store;
pub mod upstream;

// layer 3: serving
pub mod admin;
pub mod proxy;

// layer 4: top
pub mod cli;
