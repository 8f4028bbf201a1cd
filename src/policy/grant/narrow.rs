//! What a grant asks the provider to narrow its credential to.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::words::nearest;
use crate::words::strict_toml::{Table, Value};

/// `narrow` of a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrow {
    /// Repository names without their owner. `None`: not narrowed by repository; never empty.
    pub repositories: Option<Vec<Template>>,
    /// Permission → access, hyphens written as underscores (R134). Empty: not narrowed by permission.
    pub permissions: BTreeMap<Arc<str>, Arc<str>>,
    /// What to do when a placeholder has no value in a request.
    pub unresolved: Unresolved,
}

/// `narrow_unresolved` of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unresolved {
    /// Refuse the request.
    #[default]
    Refuse,
    /// Ask for the whole: not narrowed by repository.
    Whole,
}

/// Text with the placeholders `{repo}` and `{owner}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Arc<str>),
    Owner,
    Repo,
}

const PLACEHOLDERS: [&str; 2] = ["repo", "owner"];

impl Template {
    /// Reads a template; the error says what is accepted.
    pub fn parse(text: &str) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let Some((name, after)) = behind.split_once('}') else {
                return Err(format!("the brace in `{text}` is never closed"));
            };
            let part = match name {
                "repo" => Part::Repo,
                "owner" => Part::Owner,
                _ => {
                    let near = nearest(name, PLACEHOLDERS).map(|near| format!(": did you mean `{{{near}}}`?"));
                    let hint = near.unwrap_or_else(|| ": use `{repo}` or `{owner}`".to_owned());
                    return Err(format!("unknown placeholder `{{{name}}}`{hint}"));
                }
            };
            push_text(&mut parts, before);
            parts.push(part);
            rest = after;
        }
        push_text(&mut parts, rest);
        if parts.is_empty() || text.contains("}}") || rest.contains('}') {
            return Err(format!("`{text}` is not a name: use text, `{{repo}}` or `{{owner}}`"));
        }
        Ok(Template(parts))
    }

    /// The text, if what it needs is known.
    pub fn fill(&self, owner: Option<&str>, repo: Option<&str>) -> Option<String> {
        let part = |part: &Part| match part {
            Part::Text(text) => Some(text.to_string()),
            Part::Owner => owner.map(str::to_owned),
            Part::Repo => repo.map(str::to_owned),
        };
        self.0.iter().map(part).collect()
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Text(text.into()));
    }
}

/// Reads `narrow` and `narrow_unresolved`.
pub(super) fn read(root: &Table<'_>) -> Option<Narrow> {
    let unresolved = root
        .get("narrow_unresolved")
        .and_then(|value| value.one_of(&[("refuse", Unresolved::Refuse), ("whole", Unresolved::Whole)]))
        .unwrap_or_default();
    let table = root.table("narrow", &["repositories", "permissions"])?;
    let repositories = table.get("repositories").and_then(|value| {
        let list = value.parse_list(Template::parse)?;
        refuse_empty(&value, value.list()?.is_empty())?;
        Some(list)
    });
    let permissions = table.get("permissions").and_then(|value| permissions(&value)).unwrap_or_default();
    if repositories.is_none() && permissions.is_empty() {
        table.complain("`narrow` asks for nothing: name `repositories` or `permissions`, or leave it out");
    }
    Some(Narrow { repositories, permissions, unresolved })
}

fn permissions(value: &Value<'_>) -> Option<BTreeMap<Arc<str>, Arc<str>>> {
    let table = value.open_table()?;
    let entries = table.entries();
    refuse_empty(value, entries.is_empty())?;
    let mut permissions = BTreeMap::new();
    for (name, level) in entries {
        let word =
            |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'_' | b'-'));
        let normal = name.replace('-', "_");
        if !word(name) {
            table.complain_about_key(
                name,
                format!("`{name}` is not a permission: use lower-case words, as in `pull_requests`"),
            );
        }
        let Some(access) = level.string() else { continue };
        if !word(access) {
            level.complain(format!("`{access}` is not an access: use a word such as `read` or `write`"));
        }
        if permissions.insert(Arc::from(normal.as_str()), Arc::from(access)).is_some() {
            table.complain_about_key(
                name,
                format!("`{normal}` is named twice: a hyphen and an underscore are the same here"),
            );
        }
    }
    Some(permissions)
}

/// An empty list asked of a provider means "everything" to some of them: it is never sent.
fn refuse_empty(value: &Value<'_>, empty: bool) -> Option<()> {
    if empty {
        value.complain(format!("`{}` is empty: name at least one, or leave it out", value.name()));
        return None;
    }
    Some(())
}
