//! The room as others use it: a manifest in, facts out.

mod example;
mod load_errors;
mod meaning;
mod properties;
mod requests;
mod shipped;
