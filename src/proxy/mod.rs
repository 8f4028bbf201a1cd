//! The life of a request (DESIGN §3).
