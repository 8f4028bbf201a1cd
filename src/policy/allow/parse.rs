//! The grammar of allow lines.

use std::sync::Arc;

use super::{AllowError, AllowLine, Clause, Condition, OnlyItem, Pattern, Word};
use crate::words::ServiceName;

/// Words with a meaning of their own: never a verb or a selector.
const KEYWORDS: [&str; 8] = ["all", "except", "only", "none", "where", "is", "and", "or"];
/// A longer line is refused: anybody who holds a token can append one.
const MAX_LINE: usize = 4096;

impl AllowLine {
    /// Reads one line. Whether its words exist is asked by [`AllowLine::resolve`].
    pub fn parse(text: &str) -> Result<AllowLine, AllowError> {
        if text.len() > MAX_LINE {
            return Err(AllowError { message: format!("the line is longer than {MAX_LINE} bytes"), column: 1 });
        }
        let mut rest = Reader { text, offset: 0 };
        let (service, account) = rest.target()?;
        let clause = rest.clause()?;
        match rest.peek() {
            None => Ok(AllowLine { service, account, clause }),
            Some(word) => Err(rest.wrong(format!("`{word}` is not expected here: use {}", clause.next()))),
        }
    }
}

impl Clause {
    /// What may follow a complete clause.
    fn next(&self) -> &'static str {
        match self {
            Clause::All => "`except`, or end the line",
            Clause::None => "nothing after `none`",
            Clause::AllExcept(_) => "a comma and another verb, or end the line",
            Clause::Only(items) => match items.last() {
                Some(item) if !item.conditions.is_empty() => "`or`, `and`, a comma and another verb, or end the line",
                _ => "`where`, a comma and another verb, or end the line",
            },
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    offset: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.offset..).unwrap_or("")
    }

    fn skip_space(&mut self) {
        self.offset = self.text.len() - self.rest().trim_start().len();
    }

    fn column(&self) -> u32 {
        let before = self.text.get(..self.offset).unwrap_or("");
        u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX)
    }

    /// An error at what comes next.
    fn wrong(&mut self, message: impl Into<String>) -> AllowError {
        self.skip_space();
        AllowError { message: message.into(), column: self.column() }
    }

    /// The next word (or the comma), which is not consumed.
    fn peek(&mut self) -> Option<&'t str> {
        self.skip_space();
        let rest = self.rest();
        let end = match rest.chars().next()? {
            ',' => 1,
            _ => rest.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(rest.len()),
        };
        rest.get(..end)
    }

    /// Consumes the word if it comes next.
    fn take(&mut self, word: &str) -> bool {
        let next = self.peek() == Some(word);
        if next {
            self.offset += word.len();
        }
        next
    }

    fn target(&mut self) -> Result<(Word<ServiceName>, Option<Arc<str>>), AllowError> {
        self.skip_space();
        let Some(end) = self.rest().find(':') else {
            return Err(self.wrong("use a service, a colon, and what it may do, as in `mail: only read`"));
        };
        let target = self.rest().get(..end).unwrap_or("").trim();
        let (service, account) = match target.split_once('/') {
            Some((service, account)) => (service, Some(account)),
            None => (target, None),
        };
        let service = ServiceName::parse(service).map_err(|error| self.wrong(error.to_string()))?;
        // An account has the shape of a service's name; `CredentialName` checks the same.
        let account = match account {
            Some(account) if ServiceName::parse(account).is_err() => {
                return Err(self.wrong(format!(
                    "`{account}` is not an account: use the half of a credential's name behind the slash"
                )));
            }
            account => account.map(Arc::from),
        };
        let service = Word { word: service, column: self.column() };
        self.offset += end + 1;
        Ok((service, account))
    }

    fn clause(&mut self) -> Result<Clause, AllowError> {
        if self.take("none") {
            return Ok(Clause::None);
        }
        if self.take("only") {
            return self.list(Self::only_item).map(Clause::Only);
        }
        if self.take("all") {
            return if self.take("except") { self.list(Self::verb).map(Clause::AllExcept) } else { Ok(Clause::All) };
        }
        let given =
            self.peek().map_or_else(|| "nothing follows the colon".to_owned(), |word| format!("`{word}` is no clause"));
        Err(self.wrong(format!("{given}: use `all`, `all except …`, `only …` or `none`")))
    }

    /// One or more, with commas between them.
    fn list<T>(&mut self, one: fn(&mut Self) -> Result<T, AllowError>) -> Result<Vec<T>, AllowError> {
        let mut items = vec![one(self)?];
        while self.take(",") {
            items.push(one(self)?);
        }
        Ok(items)
    }

    fn verb(&mut self) -> Result<Word, AllowError> {
        self.word("a verb")
    }

    fn only_item(&mut self) -> Result<OnlyItem, AllowError> {
        let mut item = OnlyItem { verb: self.verb()?, conditions: Vec::new() };
        if self.take("where") {
            item.conditions.push(self.condition()?);
            while self.take("and") {
                item.conditions.push(self.condition()?);
            }
        }
        Ok(item)
    }

    fn condition(&mut self) -> Result<Condition, AllowError> {
        let selector = self.word("a selector")?;
        if !self.take("is") {
            return Err(self.wrong(format!("use `is` and a pattern behind `{}`", selector.word)));
        }
        let mut patterns = vec![self.pattern()?];
        while self.take("or") {
            patterns.push(self.pattern()?);
        }
        Ok(Condition { selector, patterns })
    }

    fn word(&mut self, what: &str) -> Result<Word, AllowError> {
        let word = self.peek().unwrap_or("");
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if word.is_empty() || word == "," {
            return Err(self.wrong(format!("{what} is missing here")));
        }
        if KEYWORDS.contains(&word) || !word.chars().all(plain) {
            return Err(self.wrong(format!("`{word}` is not {what}")));
        }
        let column = self.column();
        self.offset += word.len();
        Ok(Word { word: word.into(), column })
    }

    /// A glob: bare up to a space or a comma outside its braces, or in double quotes.
    fn pattern(&mut self) -> Result<Arc<str>, AllowError> {
        self.skip_space();
        let rest = self.rest();
        let (pattern, length) = match rest.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some((pattern, _)) => (pattern, pattern.len() + 2),
                None => return Err(self.wrong("the quote is never closed")),
            },
            None => {
                let bare = bare_pattern(rest);
                if KEYWORDS.contains(&bare) {
                    return Err(self.wrong(format!("a pattern is missing before `{bare}` (or quote it: `\"{bare}\"`)")));
                }
                (bare, bare.len())
            }
        };
        if pattern.is_empty() {
            return Err(self.wrong("a pattern is missing here"));
        }
        Pattern::parse(pattern, false).map_err(|error| self.wrong(error.to_string()))?;
        self.offset += length;
        if !self.rest().is_empty() && !self.rest().starts_with(|c: char| c.is_whitespace() || c == ',') {
            return Err(self.wrong("a space or a comma is missing behind the pattern"));
        }
        Ok(pattern.into())
    }
}

/// What [`Reader::pattern`] reads without quotes; empty if quotes would be needed.
pub(super) fn bare_pattern(text: &str) -> &str {
    let mut depth = 0usize;
    let end = text.find(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c.is_whitespace() || c == '"' || (c == ',' && depth == 0)
    });
    text.get(..end.unwrap_or(text.len())).unwrap_or("")
}

/// Whether a pattern must be printed in quotes.
pub(super) fn needs_quotes(pattern: &str) -> bool {
    bare_pattern(pattern) != pattern || KEYWORDS.contains(&pattern)
}
