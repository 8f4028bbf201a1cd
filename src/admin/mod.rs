//! Control socket, endpoints, metrics (DESIGN §11, §15).
