//! Services: one upstream each, described by a manifest (DESIGN §7).
