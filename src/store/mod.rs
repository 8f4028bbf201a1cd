//! The store: what must survive (DESIGN §15).
