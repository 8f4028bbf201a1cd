//! The audit: what was decided and what came of it, hash-chained (DESIGN §16).
