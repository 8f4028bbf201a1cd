//! INVARIANT 1: only `policy::decide` makes a permit, and nobody keeps one (a compile error otherwise).

#[test]
fn a_permit_can_be_made_by_nobody_else_and_not_be_copied() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/policy_permit/*.rs");
}
