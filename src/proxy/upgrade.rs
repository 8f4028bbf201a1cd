//! Upgrades: WebSocket and whatever else follows a 101 (DESIGN §5; R111, R115).

/// The protocols that a request asks to upgrade to, if it does (`Connection: upgrade` and `Upgrade`).
pub fn asked(head: &http::request::Parts) -> Option<&http::HeaderValue> {
    let _ = head;
    todo!()
}
