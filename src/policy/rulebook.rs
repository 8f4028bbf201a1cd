//! Every loaded grant and spec, checked against the services and made ready to compile programs from.

use super::Limits;

/// All policy of one configuration.
///
/// `Rulebook::compile(&Catalog, Vec<Grant>, Vec<Spec>, Limits) -> Result<Rulebook, FileErrors>` comes as
/// soon as those types have landed.
#[derive(Debug)]
pub struct Rulebook {
    limits: Limits,
}

impl Rulebook {
    /// What a decision may cost.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether an issuer may state this predicate: `false` for all that the proxy, the token room, any
    /// manifest's emits and datalog, and any grant's rule heads give meaning to (DESIGN §7).
    pub fn is_reserved(&self, _predicate: &str) -> bool {
        todo!()
    }
}
