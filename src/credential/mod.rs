//! Credentials: sealed, obtained, and bound to a request (DESIGN §13).
