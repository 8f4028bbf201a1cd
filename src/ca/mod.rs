//! The certificate authority that sandboxes trust, and a leaf for each name.
