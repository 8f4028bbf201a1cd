//! Reading a TOML file strictly: every complaint names file, line and column, and says what is accepted.
//!
//! The `toml` crate parses; this walks its tree with positions. A reader opens each table with the list
//! of its keys, so that an unknown key is an error with the nearest known one, and asks for values by
//! kind, so that `"true"` is never taken for `true`. Complaints are collected: an operator sees all of
//! them at once. A value that is wrong reads as `None`, like one that is absent; [`read`] fails if there was
//! any complaint, so nobody ever acts on the `None` of a wrong one.
//!
//! ```
//! use kleis::words::strict_toml;
//! let text = "name = 'github'\n[limits]\nmax_bdy = 3\n";
//! let wrong = strict_toml::read(text, "config.toml", &["name", "limits"], |root| {
//!     let name = root.required("name")?.string()?.to_owned();
//!     let limits = root.table("limits", &["max_body"]);
//!     let max_body = limits.and_then(|limits| limits.get("max_body")?.size());
//!     Some((name, max_body))
//! });
//! assert_eq!(
//!     wrong.unwrap_err().to_string(),
//!     "config.toml:3:1: unknown key `limits.max_bdy`: did you mean `max_body`?"
//! );
//! ```

use std::cell::{OnceCell, RefCell};
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{FileError, FileErrors, nearest, parse_duration, parse_size};

/// Reads `text` as a table with these keys. `file` is only named in errors.
pub fn read<T>(
    text: &str,
    file: &str,
    keys: &[&str],
    build: impl for<'s> FnOnce(Table<'s>) -> Option<T>,
) -> Result<T, FileErrors> {
    let source = Source { file, text, errors: RefCell::default(), lines: OnceCell::new() };
    let (root, broken) = DeTable::parse_recoverable(text);
    for error in &broken {
        source.complain(error.span().map_or(0, |span| span.start), error.message());
    }
    if !broken.is_empty() {
        return Err(source.into_errors());
    }
    let root = Table { source: &source, name: String::new(), span: 0..0, entries: root.get_ref() };
    root.refuse_unknown(keys);
    let built = build(root);
    let errors = source.into_errors();
    match built {
        Some(built) if errors.0.is_empty() => Ok(built),
        None if errors.0.is_empty() => Err(FileErrors::one(file, "the file could not be read")),
        _ => Err(errors),
    }
}

#[derive(Debug)]
struct Source<'s> {
    file: &'s str,
    text: &'s str,
    errors: RefCell<FileErrors>,
    /// Where each line begins: made when the first place is asked for.
    lines: OnceCell<Vec<usize>>,
}

impl Source<'_> {
    /// In the order of the file.
    fn into_errors(self) -> FileErrors {
        let mut errors = self.errors.into_inner();
        errors.0.sort_by_key(|error| (error.line, error.column));
        errors
    }

    /// Line and column of a byte, both 1-based, the column in characters.
    fn place(&self, offset: usize) -> (u32, u32) {
        let starts = self.lines.get_or_init(|| {
            let ends = self.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
            std::iter::once(0).chain(ends).collect()
        });
        let line = starts.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|index| starts.get(index)).copied().unwrap_or(0);
        let column = self.text.get(start..offset).map_or(0, |before| before.chars().count()) + 1;
        (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }

    fn complain(&self, offset: usize, message: impl Into<String>) {
        self.errors.borrow_mut().extend(FileErrors::at(self.file, self.text, offset, message));
    }
}

/// A table whose keys have been checked.
#[derive(Debug, Clone)]
pub struct Table<'s> {
    source: &'s Source<'s>,
    name: String,
    span: Range<usize>,
    entries: &'s DeTable<'s>,
}

impl<'s> Table<'s> {
    /// The value of a key, if it is there.
    pub fn get(&self, key: &str) -> Option<Value<'s>> {
        let (key, value) = self.entries.get_key_value(key)?;
        Some(self.value(key.get_ref(), value))
    }

    /// The value of a key; a complaint about the table if it is not there.
    pub fn required(&self, key: &str) -> Option<Value<'s>> {
        let value = self.get(key);
        if value.is_none() {
            let place = if self.name.is_empty() { String::new() } else { format!(" in `{}`", self.name) };
            self.complain(format!("`{key}` is missing{place}"));
        }
        value
    }

    /// The table under a key, with its keys.
    pub fn table(&self, key: &str, keys: &[&str]) -> Option<Table<'s>> {
        self.get(key)?.table(keys)
    }

    /// The tables of `[[key]]`, each with these keys. Empty if there is none.
    pub fn tables(&self, key: &str, keys: &[&str]) -> Vec<Table<'s>> {
        let list = self.get(key).and_then(|value| value.list()).unwrap_or_default();
        list.into_iter().filter_map(|value| value.table(keys)).collect()
    }

    /// All keys with their values in the order of the file, for tables whose keys the operator chooses.
    pub fn entries(&self) -> Vec<(&'s str, Value<'s>)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries.into_iter().map(|(key, value)| (key.get_ref().as_ref(), self.value(key.get_ref(), value))).collect()
    }

    /// Complains about the key itself (its name, not its value).
    pub fn complain_about_key(&self, key: &str, message: impl Into<String>) {
        let offset = self.entries.get_key_value(key).map_or(self.span.start, |(key, _)| key.span().start);
        self.source.complain(offset, message);
    }

    /// Complains about the table as a whole.
    pub fn complain(&self, message: impl Into<String>) {
        self.source.complain(self.span.start, message);
    }

    fn value(&self, key: &str, value: &'s Spanned<DeValue<'s>>) -> Value<'s> {
        let name = if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) };
        Value { source: self.source, name, span: value.span(), value: value.get_ref() }
    }

    fn refuse_unknown(&self, keys: &[&str]) {
        for (key, _) in self.entries.iter().filter(|(key, _)| !keys.contains(&key.get_ref().as_ref())) {
            let name = if self.name.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{}.{}", self.name, key.get_ref())
            };
            let hint = match nearest(key.get_ref(), keys.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the keys here are {}", quoted(keys)),
            };
            self.source.complain(key.span().start, format!("unknown key `{name}`: {hint}"));
        }
    }
}

/// One value, and where it stands.
#[derive(Debug, Clone)]
pub struct Value<'s> {
    source: &'s Source<'s>,
    name: String,
    span: Range<usize>,
    value: &'s DeValue<'s>,
}

impl<'s> Value<'s> {
    /// The dotted name, as it stands in errors: `credential.inject[0].kind`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A string.
    pub fn string(&self) -> Option<&'s str> {
        match self.value {
            DeValue::String(text) => Some(text.as_ref()),
            _ => self.wrong_kind("a string in quotes"),
        }
    }

    /// A string that has something in it.
    pub fn nonempty(&self) -> Option<&'s str> {
        let text = self.string()?;
        if text.trim().is_empty() {
            self.complain(format!("`{}` is empty", self.name));
            return None;
        }
        Some(text)
    }

    /// A string that `parse` accepts; its error becomes the complaint.
    pub fn parse<T, E: Display>(&self, parse: impl FnOnce(&'s str) -> Result<T, E>) -> Option<T> {
        let parsed = parse(self.string()?);
        parsed.map_err(|error| self.complain(format!("`{}`: {error}", self.name))).ok()
    }

    /// One of these words.
    pub fn one_of<T: Clone>(&self, words: &[(&str, T)]) -> Option<T> {
        let given = self.string()?;
        let found = words.iter().find(|(word, _)| *word == given);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.complain(format!("`{}` is `{given}`: use one of {}", self.name, quoted(&known)));
        }
        found.map(|(_, value)| value.clone())
    }

    /// `true` or `false`, never a string of it (R16).
    pub fn boolean(&self) -> Option<bool> {
        match self.value {
            DeValue::Boolean(value) => Some(*value),
            _ => self.wrong_kind("true or false, without quotes"),
        }
    }

    /// A whole number in a range.
    pub fn integer(&self, range: RangeInclusive<i64>) -> Option<i64> {
        let DeValue::Integer(number) = self.value else {
            return self.wrong_kind("a whole number");
        };
        let parsed = i64::from_str_radix(number.as_str(), number.radix()).ok().filter(|n| range.contains(n));
        if parsed.is_none() {
            let (from, to) = (range.start(), range.end());
            self.complain(format!("`{}` is {number}: use a number from {from} to {to}", self.name));
        }
        parsed
    }

    /// A duration as text: `"15s"`.
    pub fn duration(&self) -> Option<Duration> {
        match self.value {
            DeValue::String(_) => self.parse(parse_duration),
            _ => self.wrong_kind("a duration in quotes, as in \"15s\""),
        }
    }

    /// A size: `"32MiB"`, or a number of bytes.
    pub fn size(&self) -> Option<u64> {
        match self.value {
            DeValue::String(_) => self.parse(parse_size),
            DeValue::Integer(_) => self.integer(0..=i64::MAX).and_then(|bytes| u64::try_from(bytes).ok()),
            _ => self.wrong_kind("a size, as in \"32MiB\" or 1048576"),
        }
    }

    /// The elements of a list.
    pub fn list(&self) -> Option<Vec<Value<'s>>> {
        let DeValue::Array(elements) = self.value else {
            return self.wrong_kind("a list in brackets");
        };
        let element = |(index, value): (usize, &'s Spanned<DeValue<'s>>)| Value {
            source: self.source,
            name: format!("{}[{index}]", self.name),
            span: value.span(),
            value: value.get_ref(),
        };
        Some(elements.iter().enumerate().map(element).collect())
    }

    /// A list of strings, each accepted by `parse`.
    pub fn parse_list<T, E: Display>(&self, parse: impl Fn(&'s str) -> Result<T, E>) -> Option<Vec<T>> {
        Some(self.list()?.iter().filter_map(|element| element.parse(&parse)).collect())
    }

    /// A list of strings.
    pub fn strings(&self) -> Option<Vec<&'s str>> {
        Some(self.list()?.iter().filter_map(Value::string).collect())
    }

    /// A table with these keys.
    pub fn table(&self, keys: &[&str]) -> Option<Table<'s>> {
        let table = self.open_table()?;
        table.refuse_unknown(keys);
        Some(table)
    }

    /// A table whose keys the operator chooses: see [`Table::entries`].
    pub fn open_table(&self) -> Option<Table<'s>> {
        match self.value {
            DeValue::Table(entries) => {
                Some(Table { source: self.source, name: self.name.clone(), span: self.span.clone(), entries })
            }
            _ => self.wrong_kind("a table"),
        }
    }

    /// Whether it is a string, for values of more than one kind.
    pub fn is_string(&self) -> bool {
        matches!(self.value, DeValue::String(_))
    }

    /// The value as JSON, for settings that another room reads (`[config]` of a credential).
    pub fn json(&self) -> Option<serde_json::Value> {
        Some(match self.value {
            DeValue::String(text) => text.as_ref().into(),
            DeValue::Boolean(value) => (*value).into(),
            DeValue::Integer(_) => self.integer(i64::MIN..=i64::MAX)?.into(),
            DeValue::Array(_) => self.list()?.iter().map(Value::json).collect::<Option<Vec<_>>>()?.into(),
            DeValue::Table(_) => {
                let entries = self.open_table()?.entries();
                let member = |(key, value): &(&str, Value<'s>)| Some(((*key).to_owned(), value.json()?));
                serde_json::Value::Object(entries.iter().map(member).collect::<Option<_>>()?)
            }
            DeValue::Float(_) | DeValue::Datetime(_) => {
                return self.wrong_kind("a string, a whole number, true, false, a list or a table");
            }
        })
    }

    /// Complains about this value.
    pub fn complain(&self, message: impl Into<String>) {
        self.source.complain(self.span.start, message);
    }

    /// Complains about a byte of this string value: exact for text that stands in the file as it is (any
    /// `'''` literal), the value's beginning where escapes were read.
    pub fn complain_within(&self, offset: usize, message: impl Into<String>) {
        self.source.complain(self.offset_within(offset), message);
    }

    /// Line and column of a byte of this string value, as exact as [`Value::complain_within`] is.
    pub fn place_within(&self, offset: usize) -> (u32, u32) {
        self.source.place(self.offset_within(offset))
    }

    /// The same for many places of one value.
    pub fn places(&self) -> impl Fn(usize) -> (u32, u32) + use<'s> {
        let (source, start) = (self.source, self.offset_within(0));
        let exact = self.verbatim_start().is_some();
        move |offset| source.place(if exact { start + offset } else { start })
    }

    fn offset_within(&self, offset: usize) -> usize {
        self.span.start + self.verbatim_start().map_or(0, |start| start + offset)
    }

    /// Where the text begins within the value's own bytes, if it stands there as it is.
    fn verbatim_start(&self) -> Option<usize> {
        let raw = self.source.text.get(self.span.clone())?;
        self.value.as_str().filter(|text| !text.is_empty()).and_then(|text| raw.find(text))
    }

    /// Complains about a place of the file that was learned from [`Value::places`].
    pub fn complain_at(&self, line: u32, column: u32, message: impl Into<String>) {
        let error = FileError {
            file: self.source.file.to_owned(),
            line: Some(line),
            column: Some(column),
            message: message.into(),
        };
        self.source.errors.borrow_mut().0.push(error);
    }

    /// Takes over complaints that were made about this string value alone, with places relative to it.
    pub fn complain_all(&self, errors: FileErrors) {
        let text = self.value.as_str().unwrap_or("");
        for error in errors.0 {
            let line_start = error.line.map_or(0, |line| {
                text.split_inclusive('\n').take(line.saturating_sub(1) as usize).map(str::len).sum::<usize>()
            });
            let rest = text.get(line_start..).unwrap_or("");
            let column = error.column.map_or(0, |column| {
                rest.chars().take(column.saturating_sub(1) as usize).map(char::len_utf8).sum::<usize>()
            });
            self.complain_within(line_start + column, error.message);
        }
    }

    fn wrong_kind<T>(&self, accepted: &str) -> Option<T> {
        let kind = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.complain(format!("`{}` is {kind}: use {accepted}", self.name));
        None
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str, keys: &[&str], build: impl for<'s> FnOnce(Table<'s>) -> Option<()>) -> String {
        read(text, "f.toml", keys, build).unwrap_err().to_string()
    }

    #[test]
    fn a_syntax_error_has_a_place() {
        let text = complaints("a = 1\nb = \nc = [\n", &["a", "b", "c"], |_| Some(()));
        assert!(text.starts_with("f.toml:2:5: ") && text.contains("\nf.toml:3:6: "), "{text}");
    }

    #[test]
    fn a_key_twice_is_an_error() {
        let text = complaints("a = 1\na = 2\n", &["a"], |_| Some(()));
        assert!(text.starts_with("f.toml:2:1: "), "{text}");
    }

    #[test]
    fn all_complaints_come_together() {
        let text = complaints("flag = 'true'\nnumber = '3'\nlost = 1\n", &["flag", "number"], |root| {
            root.get("flag")?.boolean();
            root.get("number")?.integer(0..=9);
            root.required("missing");
            Some(())
        });
        assert_eq!(
            text,
            "f.toml:1:1: `missing` is missing\n\
             f.toml:1:8: `flag` is a string: use true or false, without quotes\n\
             f.toml:2:10: `number` is a string: use a whole number\n\
             f.toml:3:1: unknown key `lost`: the keys here are `flag`, `number`"
        );
    }

    #[test]
    fn a_place_within_a_literal_is_exact() {
        let text = complaints("x = '''\nüa;\n  b;\n'''\n", &["x"], |root| {
            let value = root.get("x")?;
            value.complain_within(value.string()?.find('b')?, "here");
            value.complain_all(FileErrors::at("", value.string()?, 2, "there"));
            Some(())
        });
        assert_eq!(text, "f.toml:2:2: there\nf.toml:3:3: here");
    }

    #[test]
    fn values_of_the_right_kind_are_read() {
        let text = "d = '15s'\ns = 17\nt = '1KiB'\nw = 'b'\n[[e]]\nk = 1\n[[e]]\nk = 2\n[o]\nz = ['q']\n";
        let read = read(text, "f.toml", &["d", "s", "t", "w", "e", "o"], |root| {
            let numbers: Vec<i64> =
                root.tables("e", &["k"]).iter().filter_map(|e| e.get("k")?.integer(0..=5)).collect();
            assert_eq!(numbers, [1, 2]);
            assert_eq!(root.get("o")?.json()?, serde_json::json!({"z": ["q"]}));
            assert_eq!(root.get("w")?.one_of(&[("a", 1), ("b", 2)]), Some(2));
            Some((root.get("d")?.duration()?, root.get("s")?.size()?, root.get("t")?.size()?))
        });
        assert_eq!(read.unwrap(), (Duration::from_secs(15), 17, 1024));
    }
}
