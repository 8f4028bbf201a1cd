//! Reading `config.toml`.
