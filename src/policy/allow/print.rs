//! The one spelling of an allow line: what is stored in tokens and shown to people.

use std::fmt;

use super::parse::needs_quotes;
use super::{AllowLine, Clause, Condition, OnlyItem};

impl AllowLine {
    /// The biscuit check that a narrowing is: `check if "mail: only read".extern::allows();`, without its
    /// semicolon. The line cannot leave its string: quotes and backslashes are escaped, and no line has
    /// a control character.
    pub fn check_text(&self) -> String {
        let line = self.to_string().replace('\\', "\\\\").replace('"', "\\\"");
        format!("check if \"{line}\".extern::allows()")
    }
}

impl fmt::Display for AllowLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.service.word)?;
        if let Some(account) = &self.account {
            write!(f, "/{account}")?;
        }
        write!(f, ": {}", self.clause)
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clause::All => f.write_str("all"),
            Clause::None => f.write_str("none"),
            Clause::AllExcept(verbs) => {
                let verbs: Vec<&str> = verbs.iter().map(|verb| verb.word.as_ref()).collect();
                write!(f, "all except {}", verbs.join(", "))
            }
            Clause::Only(items) => {
                let items: Vec<String> = items.iter().map(OnlyItem::to_string).collect();
                write!(f, "only {}", items.join(", "))
            }
        }
    }
}

impl fmt::Display for OnlyItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verb.word)?;
        for (index, condition) in self.conditions.iter().enumerate() {
            write!(f, " {} {condition}", if index == 0 { "where" } else { "and" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is ", self.selector.word)?;
        for (index, pattern) in self.patterns.iter().enumerate() {
            let or = if index == 0 { "" } else { " or " };
            let quote = if needs_quotes(pattern) { "\"" } else { "" };
            write!(f, "{or}{quote}{pattern}{quote}")?;
        }
        Ok(())
    }
}
