//! Configuration: files to one immutable snapshot (DESIGN §15).
