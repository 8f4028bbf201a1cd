//! What the compiler refuses: the invariants that are types (DESIGN §2).

#[test]
fn invariant_1_what_the_compiler_refuses() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
