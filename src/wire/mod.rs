//! Bodies: what the bytes of a request mean (DESIGN §5).
