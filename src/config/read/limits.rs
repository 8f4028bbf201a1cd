//! Reading `[limits]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::Limits;
use crate::policy;
use crate::words::strict_toml::Table;

const KEYS: [&str; 15] = [
    "head_timeout",
    "idle_timeout",
    "connect_timeout",
    "answer_timeout",
    "max_head",
    "max_body",
    "max_connections",
    "max_connections_per_token",
    "policy_fuel",
    "token_fuel",
    "max_facts",
    "max_derived",
    "max_token_derived",
    "max_regex",
    "max_token_regex",
];

pub(super) fn read(root: &Table<'_>) -> Limits {
    let defaults = Limits::default();
    let Some(table) = root.table("limits", &KEYS) else {
        return defaults;
    };
    let limits = Limits {
        head_timeout: timeout(&table, "head_timeout", defaults.head_timeout),
        idle_timeout: timeout(&table, "idle_timeout", defaults.idle_timeout),
        connect_timeout: timeout(&table, "connect_timeout", defaults.connect_timeout),
        answer_timeout: timeout(&table, "answer_timeout", defaults.answer_timeout),
        max_head: size(&table, "max_head", 1 << 10..=1 << 20, defaults.max_head),
        max_body: size(&table, "max_body", 0..=4 << 30, defaults.max_body),
        max_connections: count(&table, "max_connections", defaults.max_connections),
        max_connections_per_token: count(&table, "max_connections_per_token", defaults.max_connections_per_token),
        policy: policy_limits(&table, &defaults.policy),
    };
    if limits.policy.token_fuel > limits.policy.policy_fuel {
        table.complain_about_key("token_fuel", "`limits.token_fuel` is a part of `policy_fuel`: it can't be more");
    }
    limits
}

fn policy_limits(table: &Table<'_>, defaults: &policy::Limits) -> policy::Limits {
    let regex = |key, default: usize| {
        let bytes = size(table, key, 1 << 10..=64 << 20, u64::try_from(default).unwrap_or(u64::MAX));
        usize::try_from(bytes).unwrap_or(default)
    };
    policy::Limits {
        policy_fuel: u64::from(count(table, "policy_fuel", u32::try_from(defaults.policy_fuel).unwrap_or(u32::MAX))),
        token_fuel: u64::from(count(table, "token_fuel", u32::try_from(defaults.token_fuel).unwrap_or(u32::MAX))),
        max_facts: count(table, "max_facts", defaults.max_facts),
        max_derived: count(table, "max_derived", defaults.max_derived),
        max_token_derived: count(table, "max_token_derived", defaults.max_token_derived),
        max_regex: regex("max_regex", defaults.max_regex),
        max_token_regex: regex("max_token_regex", defaults.max_token_regex),
    }
}

/// A timeout of nothing would refuse everybody, and one that never comes is no timeout.
fn timeout(table: &Table<'_>, key: &str, default: Duration) -> Duration {
    let Some(value) = table.get(key) else {
        return default;
    };
    let Some(timeout) = value.duration() else {
        return default;
    };
    if timeout.is_zero() || timeout > Duration::from_secs(86_400) {
        value.complain(format!("`{}` is out of range: use more than nothing and at most a day", value.name()));
    }
    timeout
}

fn size(table: &Table<'_>, key: &str, range: RangeInclusive<u64>, default: u64) -> u64 {
    let Some(value) = table.get(key) else {
        return default;
    };
    let Some(size) = value.size() else {
        return default;
    };
    if !range.contains(&size) {
        let (from, to) = (range.start(), range.end());
        value.complain(format!("`{}` is out of range: use {from} to {to} bytes", value.name()));
    }
    size
}

fn count(table: &Table<'_>, key: &str, default: u32) -> u32 {
    let given = table.get(key).and_then(|value| value.integer(1..=1_000_000_000));
    given.and_then(|count| u32::try_from(count).ok()).unwrap_or(default)
}
