//! What a decision may cost.

/// Bounds of the work that one decision may do. Counted, never timed: the same inputs always end the
/// same way, also on a busy machine (R150).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Candidate rows that one decision may look at, in all.
    pub policy_fuel: u64,
    /// Candidate rows that rules and checks of token blocks may look at, in all: anybody who holds a
    /// token can append a block.
    pub token_fuel: u64,
    /// Facts that a request may bring, body nodes included.
    pub max_facts: u32,
    /// Facts that rules may derive.
    pub max_derived: u32,
    /// Facts that rules of token blocks may derive.
    pub max_token_derived: u32,
    /// Compiled size of one regex, in bytes.
    pub max_regex: usize,
    /// Compiled size of one regex of a token block, in bytes.
    pub max_token_regex: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            policy_fuel: 200_000,
            token_fuel: 20_000,
            max_facts: 4_096,
            max_derived: 4_096,
            max_token_derived: 1_024,
            max_regex: 1 << 20,
            max_token_regex: 1 << 16,
        }
    }
}
