//! Specs: what a kind of bearer may do (DESIGN §9).
//!
//! Line based, `#` comments; a word, then what it takes:
//!
//! ```text
//! about  Reads and files mail.
//! ttl    12h
//! grant  orchestra-github
//! allow  mail/work: only read, flag
//! ```

use std::sync::Arc;
use std::time::Duration;

use super::allow::AllowLine;
use super::grant::version_of;
use crate::words::{FileErrors, GrantName, SpecName, nearest, parse_duration};

/// One `.spec` file. One without `grant` and `allow` loads and allows nothing (R155).
#[derive(Debug, Clone)]
pub struct Spec {
    /// The file's stem.
    pub name: SpecName,
    /// What it is for.
    pub about: Option<Arc<str>>,
    /// The longest that a token from it lives.
    pub ttl: Option<Duration>,
    /// Its candidates, in the order of the file.
    pub entries: Vec<SpecEntry>,
    /// SHA-256 of the file's text, the first 16 hex digits.
    pub version: Arc<str>,
    /// The file, as errors name it.
    pub file: Arc<str>,
}

/// A line that gives something.
#[derive(Debug, Clone)]
pub struct SpecEntry {
    /// 1-based.
    pub line: u32,
    /// 1-based, in characters: where what follows the word begins.
    pub column: u32,
    /// What it gives.
    pub gives: Gives,
}

/// What a line of a spec gives.
#[derive(Debug, Clone)]
pub enum Gives {
    /// All that a grant allows.
    Grant(GrantName),
    /// What an allow line says.
    Allow(AllowLine),
}

const WORDS: [&str; 4] = ["about", "ttl", "grant", "allow"];

impl Spec {
    /// Reads a spec file; its name is the file's stem. All that is wrong comes together. Whether grants,
    /// services and words exist is checked when the rulebook is made.
    pub fn parse(name: SpecName, text: &str, file: &str) -> Result<Spec, FileErrors> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reading = Reading {
            spec: Spec {
                name,
                about: None,
                ttl: None,
                entries: Vec::new(),
                version: version_of(text),
                file: file.into(),
            },
            errors: FileErrors::default(),
            text,
        };
        let mut offset = 0;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
            reading.line(number, offset, line);
            offset += line.len();
        }
        reading.errors.into_result()?;
        Ok(reading.spec)
    }

    /// The grants that it includes.
    pub fn grants(&self) -> impl Iterator<Item = &GrantName> {
        self.entries.iter().filter_map(|entry| match &entry.gives {
            Gives::Grant(name) => Some(name),
            Gives::Allow(_) => None,
        })
    }

    /// Its allow lines.
    pub fn allow_lines(&self) -> impl Iterator<Item = &AllowLine> {
        self.entries.iter().filter_map(|entry| match &entry.gives {
            Gives::Grant(_) => None,
            Gives::Allow(line) => Some(line),
        })
    }
}

struct Reading<'t> {
    spec: Spec,
    errors: FileErrors,
    text: &'t str,
}

impl Reading<'_> {
    fn complain(&mut self, offset: usize, message: impl Into<String>) {
        let file = self.spec.file.clone();
        self.errors.extend(FileErrors::at(&file, self.text, offset, message));
    }

    /// One line, which begins at this byte of the file.
    fn line(&mut self, number: u32, line_offset: usize, line: &str) {
        let start = line_offset + line.len() - line.trim_start().len();
        let content = line.trim();
        if content.is_empty() || content.starts_with('#') {
            return;
        }
        let end = content.find(char::is_whitespace).unwrap_or(content.len());
        let (word, rest) = content.split_at(end);
        let value_offset = start + content.len() - rest.trim_start().len();
        let value = if word == "about" { rest.trim() } else { without_comment(rest.trim_start()) };
        if !WORDS.contains(&word) {
            let hint = nearest(word, WORDS).map(|near| format!("did you mean `{near}`?"));
            let hint = hint.unwrap_or_else(|| "a line begins with `about`, `ttl`, `grant`, `allow` or `#`".to_owned());
            return self.complain(start, format!("`{word}` begins no line of a spec: {hint}"));
        }
        if value.is_empty() {
            return self.complain(value_offset, format!("nothing follows `{word}`"));
        }
        self.entry(number, start, value_offset, word, value);
    }

    fn entry(&mut self, number: u32, start: usize, offset: usize, word: &str, value: &str) {
        match word {
            "about" if self.spec.about.is_some() => self.complain(start, "`about` stands here a second time"),
            "about" => self.spec.about = Some(value.into()),
            "ttl" if self.spec.ttl.is_some() => self.complain(start, "`ttl` stands here a second time"),
            "ttl" => match parse_duration(value) {
                Ok(ttl) if ttl.as_secs() == 0 => self.complain(offset, "`ttl` is less than a second"),
                Ok(ttl) => self.spec.ttl = Some(ttl),
                Err(error) => self.complain(offset, error.to_string()),
            },
            "grant" => match GrantName::parse(value) {
                Ok(name) if self.spec.grants().any(|other| *other == name) => {
                    self.complain(offset, format!("`{name}` is included already"));
                }
                Ok(name) => self.push(number, offset, Gives::Grant(name)),
                Err(error) => self.complain(offset, error.to_string()),
            },
            _ => match AllowLine::parse(value) {
                Ok(line) => self.push(number, offset, Gives::Allow(line)),
                Err(error) => {
                    let skip: usize = value.chars().take(error.column as usize - 1).map(char::len_utf8).sum();
                    self.complain(offset + skip, error.message);
                }
            },
        }
    }

    fn push(&mut self, line: u32, offset: usize, gives: Gives) {
        let column = crate::service::place_in(self.text, offset).column;
        self.spec.entries.push(SpecEntry { line, column, gives });
    }
}

/// Cuts a `#` comment off: one that follows a space and is not inside quotes.
fn without_comment(value: &str) -> &str {
    let (mut quoted, mut space) = (false, true);
    let end = value.find(|c: char| {
        quoted ^= c == '"';
        let comment = c == '#' && space && !quoted;
        space = c.is_whitespace();
        comment
    });
    value.get(..end.unwrap_or(value.len())).unwrap_or(value).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Spec, String> {
        Spec::parse(SpecName::parse("secretary").unwrap(), text, "s.spec").map_err(|errors| errors.to_string())
    }

    #[test]
    fn lines_keep_their_order_and_place() {
        let spec = parse(
            "# a secretary\r\nabout  Reads #1 mail.\r\nttl 12h # short\r\n\r\n  allow mail/work: only read, flag\r\n\
             grant g # the other\r\nallow github: only label where label is \"a # b\" # c\r\n",
        )
        .unwrap();
        assert_eq!(spec.about.as_deref(), Some("Reads #1 mail."));
        assert_eq!(spec.ttl, Some(Duration::from_secs(43_200)));
        let places: Vec<(u32, u32)> = spec.entries.iter().map(|entry| (entry.line, entry.column)).collect();
        assert_eq!(places, [(5, 9), (6, 7), (7, 7)]);
        assert_eq!(spec.grants().next().unwrap().as_str(), "g");
        let lines: Vec<String> = spec.allow_lines().map(AllowLine::to_string).collect();
        assert_eq!(lines, ["mail/work: only read, flag", "github: only label where label is \"a # b\""]);
    }

    #[test]
    fn r155_an_empty_spec_loads_and_gives_nothing() {
        for text in ["", "# nothing\n", "about nothing", "\u{feff}\n"] {
            assert!(parse(text).unwrap().entries.is_empty());
        }
    }

    #[test]
    fn everything_wrong_is_told_with_line_and_column() {
        let told = parse(
            "abuot x\nttl soon\nttl\ngrant a b\ngrant g\ngrant g\nallow mail: read\nallow\nabout x\nabout y\nzzz\n  allow mail: only read where x is\nttl 0s\n",
        )
        .unwrap_err();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            lines,
            [
                "s.spec:1:1: `abuot` begins no line of a spec: did you mean `about`?",
                "s.spec:2:5: `soon` is not a duration: use a number and ms, s, m, h or d, as in `15s`",
                "s.spec:3:4: nothing follows `ttl`",
                "s.spec:4:7: `a b` is not a name for a grant: use 1 to 64 of a-z, A-Z, 0-9, `-`, `_`, `.`, beginning with a letter or digit",
                "s.spec:6:7: `g` is included already",
                "s.spec:7:13: `read` is no clause: use `all`, `all except …`, `only …` or `none`",
                "s.spec:8:6: nothing follows `allow`",
                "s.spec:10:1: `about` stands here a second time",
                "s.spec:11:1: `zzz` begins no line of a spec: a line begins with `about`, `ttl`, `grant`, `allow` or `#`",
                "s.spec:12:35: a pattern is missing here",
                "s.spec:13:5: `ttl` is less than a second",
            ]
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(about|ttl|grant|allow|#|mail:|only|[ -~é]|\n|\r|\t){0,30}") {
            let _ = parse(&text);
        }
    }
}
