//! Reason codes: the one vocabulary in which a refusal is recorded, counted and told (DESIGN §17).

/// Why a request was refused. Stable: operators alert on these and clients switch on them
/// (`X-Kleis-Reason`). Status and text for each are in `proxy/refuse.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is documented by its text in proxy/refuse.rs")]
pub enum Reason {
    TokenMissing,
    TokenInvalid,
    TokenExpired,
    TokenRevoked,
    HostUnclaimed,
    ModeUnsupported,
    AuthorityMismatch,
    AddressForbidden,
    Loop,
    Malformed,
    AmbiguousPath,
    AmbiguousFraming,
    ExpectationFailed,
    HeadTooLarge,
    PolicyDenied,
    NoGrantForService,
    Narrowed,
    PolicyTooExpensive,
    PolicyError,
    TokenUnsupported,
    CleartextCredential,
    BodyUnreadable,
    BodyTooLargeToJudge,
    CredentialMissing,
    CredentialNeedsLogin,
    CredentialUnavailable,
    UpstreamUnreachable,
    UpstreamTls,
    UpstreamTimeout,
    UpstreamProtocol,
    Overloaded,
    ShuttingDown,
    AuditUnavailable,
}

impl Reason {
    /// Every reason, in table order.
    pub const ALL: &[Reason] = &[
        Reason::TokenMissing,
        Reason::TokenInvalid,
        Reason::TokenExpired,
        Reason::TokenRevoked,
        Reason::HostUnclaimed,
        Reason::ModeUnsupported,
        Reason::AuthorityMismatch,
        Reason::AddressForbidden,
        Reason::Loop,
        Reason::Malformed,
        Reason::AmbiguousPath,
        Reason::AmbiguousFraming,
        Reason::ExpectationFailed,
        Reason::HeadTooLarge,
        Reason::PolicyDenied,
        Reason::NoGrantForService,
        Reason::Narrowed,
        Reason::PolicyTooExpensive,
        Reason::PolicyError,
        Reason::TokenUnsupported,
        Reason::CleartextCredential,
        Reason::BodyUnreadable,
        Reason::BodyTooLargeToJudge,
        Reason::CredentialMissing,
        Reason::CredentialNeedsLogin,
        Reason::CredentialUnavailable,
        Reason::UpstreamUnreachable,
        Reason::UpstreamTls,
        Reason::UpstreamTimeout,
        Reason::UpstreamProtocol,
        Reason::Overloaded,
        Reason::ShuttingDown,
        Reason::AuditUnavailable,
    ];

    /// The code as it stands in headers, audit entries and metrics.
    pub fn code(self) -> &'static str {
        match self {
            Reason::TokenMissing => "token_missing",
            Reason::TokenInvalid => "token_invalid",
            Reason::TokenExpired => "token_expired",
            Reason::TokenRevoked => "token_revoked",
            Reason::HostUnclaimed => "host_unclaimed",
            Reason::ModeUnsupported => "mode_unsupported",
            Reason::AuthorityMismatch => "authority_mismatch",
            Reason::AddressForbidden => "address_forbidden",
            Reason::Loop => "loop",
            Reason::Malformed => "malformed",
            Reason::AmbiguousPath => "ambiguous_path",
            Reason::AmbiguousFraming => "ambiguous_framing",
            Reason::ExpectationFailed => "expectation_failed",
            Reason::HeadTooLarge => "head_too_large",
            Reason::PolicyDenied => "policy_denied",
            Reason::NoGrantForService => "no_grant_for_service",
            Reason::Narrowed => "narrowed",
            Reason::PolicyTooExpensive => "policy_too_expensive",
            Reason::PolicyError => "policy_error",
            Reason::TokenUnsupported => "token_unsupported",
            Reason::CleartextCredential => "cleartext_credential",
            Reason::BodyUnreadable => "body_unreadable",
            Reason::BodyTooLargeToJudge => "body_too_large_to_judge",
            Reason::CredentialMissing => "credential_missing",
            Reason::CredentialNeedsLogin => "credential_needs_login",
            Reason::CredentialUnavailable => "credential_unavailable",
            Reason::UpstreamUnreachable => "upstream_unreachable",
            Reason::UpstreamTls => "upstream_tls",
            Reason::UpstreamTimeout => "upstream_timeout",
            Reason::UpstreamProtocol => "upstream_protocol",
            Reason::Overloaded => "overloaded",
            Reason::ShuttingDown => "shutting_down",
            Reason::AuditUnavailable => "audit_unavailable",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_listed() {
        let codes: std::collections::BTreeSet<_> = Reason::ALL.iter().map(|r| r.code()).collect();
        assert_eq!(codes.len(), Reason::ALL.len());
    }
}
