//! `credentials/*.toml`: credentials that files declare (DESIGN §13).
