//! The command line (DESIGN §18).
