//! What the compiler refuses: the invariants that are types (DESIGN §2).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests may panic"
)]

#[test]
fn invariant_1_what_the_compiler_refuses() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
