//! The one door through which state changes (DESIGN §15).
