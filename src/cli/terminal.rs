//! What people see: colour where there is a terminal for it, tables that line up, and nothing that a
//! hostile name could do to a terminal.

use std::fmt::Write as _;
use std::io::IsTerminal;

/// How text is set off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A heading or a name.
    Bold,
    /// Went well.
    Good,
    /// Went wrong.
    Bad,
    /// Wants attention.
    Warn,
    /// Matters less.
    Dim,
}

/// Where text goes and whether it may be coloured.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    colour: bool,
}

impl Terminal {
    /// For standard output: colour if it is a terminal and `NO_COLOR` is not set (no-color.org).
    pub fn stdout() -> Terminal {
        Terminal { colour: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    /// For standard error, the same.
    pub fn stderr() -> Terminal {
        Terminal { colour: std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    /// Without colour.
    pub fn plain() -> Terminal {
        Terminal { colour: false }
    }

    /// The text, set off.
    pub fn paint(self, style: Style, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match style {
            Style::Bold => "1",
            Style::Good => "32",
            Style::Bad => "31",
            Style::Warn => "33",
            Style::Dim => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A table with a heading, columns lined up, no trailing space.
    pub fn table(self, heading: &[&str], rows: &[Vec<String>]) -> String {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| visible(cell)).collect()).collect();
        let widths: Vec<usize> = heading
            .iter()
            .enumerate()
            .map(|(i, title)| {
                let widest = rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max();
                widest.unwrap_or(0).max(title.chars().count())
            })
            .collect();
        let line = |cells: &[String]| {
            let mut out = String::new();
            for (cell, width) in cells.iter().zip(&widths) {
                let _ = write!(out, "{cell:<width$}  ");
            }
            out.trim_end().to_owned()
        };
        let titles: Vec<String> = heading.iter().map(|title| (*title).to_owned()).collect();
        let mut out = self.paint(Style::Bold, &line(&titles));
        for row in &rows {
            out.push('\n');
            out.push_str(&line(row));
        }
        out
    }
}

/// The text with control characters (escapes, newlines, bidi overrides) made visible: names come from
/// requests and tokens, and an operator's terminal is a target too (R174).
pub fn visible(text: &str) -> String {
    let hostile = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    if !text.contains(hostile) {
        return text.to_owned();
    }
    text.chars().fold(String::new(), |mut out, c| {
        if hostile(c) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r174_nothing_in_a_table_reaches_the_terminal_as_an_escape() {
        let table = Terminal::plain().table(&["name"], &[vec!["a\x1b[31m\u{202e}b\nc".to_owned()]]);
        assert_eq!(table, "name\na\\u{1b}[31m\\u{202e}b\\u{a}c");
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["github/app".to_owned(), "ok".to_owned()], vec!["x/y".to_owned(), String::new()]];
        assert_eq!(Terminal::plain().table(&["NAME", "STATE"], &rows), "NAME        STATE\ngithub/app  ok\nx/y");
    }
}
