//! The names of permissions (R134).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::words::nearest;

/// What an App can be given: the keys of `permissions` in the vendor's description of
/// "Create an installation access token".
const NAMES: &[&str] = &[
    "actions",
    "administration",
    "artifact_metadata",
    "attestations",
    "checks",
    "codespaces",
    "codespaces_lifecycle_admin",
    "codespaces_metadata",
    "codespaces_secrets",
    "contents",
    "custom_properties_for_organizations",
    "dependabot_secrets",
    "deployments",
    "discussions",
    "email_addresses",
    "enterprise_custom_properties_for_organizations",
    "environments",
    "followers",
    "git_ssh_keys",
    "gpg_keys",
    "interaction_limits",
    "issues",
    "members",
    "merge_queues",
    "metadata",
    "models",
    "organization_administration",
    "organization_announcement_banners",
    "organization_copilot_seat_management",
    "organization_custom_org_roles",
    "organization_custom_properties",
    "organization_custom_roles",
    "organization_events",
    "organization_hooks",
    "organization_packages",
    "organization_personal_access_token_requests",
    "organization_personal_access_tokens",
    "organization_plan",
    "organization_projects",
    "organization_secrets",
    "organization_self_hosted_runners",
    "organization_user_blocking",
    "packages",
    "pages",
    "profile",
    "pull_requests",
    "repository_advisories",
    "repository_custom_properties",
    "repository_hooks",
    "repository_projects",
    "secret_scanning_alerts",
    "secrets",
    "security_events",
    "single_file",
    "starring",
    "statuses",
    "team_discussions",
    "variables",
    "vulnerability_alerts",
    "workflows",
];

/// Permissions as the API spells them; `pull-requests` is a common slip for `pull_requests`. The error says
/// what would be accepted: to be called when a grant that narrows such a credential is loaded.
pub fn normalise(given: &BTreeMap<Arc<str>, Arc<str>>) -> Result<BTreeMap<String, String>, String> {
    let mut out = BTreeMap::new();
    for (name, access) in given {
        let plain = name.trim().to_ascii_lowercase().replace(['-', ' '], "_");
        if !NAMES.contains(&plain.as_str()) {
            let hint = nearest(&plain, NAMES.iter().copied()).unwrap_or("contents");
            return Err(format!("`{name}` is not a permission of a GitHub App: use one such as `{hint}`"));
        }
        if !["read", "write", "admin"].contains(&access.as_ref()) {
            return Err(format!("`{access}` is not an access for permission `{name}`: use read, write or admin"));
        }
        if out.insert(plain, access.to_string()).is_some_and(|before| before != access.as_ref()) {
            return Err(format!("permission `{name}` stands there twice"));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(pairs: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let given = pairs.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        normalise(&given).map(|map| map.into_iter().map(|(a, b)| format!("{a}:{b}")).collect())
    }

    #[test]
    fn r134_known_names_are_normalised_and_unknown_ones_refused_with_a_hint() {
        assert_eq!(
            normal(&[("pull-requests", "read"), ("contents", "write")]).unwrap(),
            ["contents:write", "pull_requests:read"]
        );
        assert!(normal(&[("content", "read")]).unwrap_err().contains("`contents`"));
        assert!(normal(&[("contents", "rw")]).unwrap_err().contains("read, write or admin"));
        assert!(normal(&[("pull-requests", "read"), ("pull_requests", "write")]).unwrap_err().contains("twice"));
    }

    #[test]
    fn names_are_sorted() {
        assert!(NAMES.is_sorted());
    }
}
