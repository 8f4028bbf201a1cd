//! INVARIANT 1: only `policy::decide` makes a permit, and nobody keeps one (a compile error otherwise).
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
fn a_permit_can_be_made_by_nobody_else_and_not_be_copied() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/policy_permit/*.rs");
}
