//! The beginning of what `git push` sends: a command for each ref (gitprotocol-pack(5)).

/// `refs/heads/x`: an update; `+refs/heads/x`: made anew; `-refs/heads/x`: deleted.
pub(super) const MEDIA: &str = "application/x-git-receive-pack-request";

const ZERO: &str = "0000000000000000000000000000000000000000";
const OLD: &str = "1111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222";

/// The body of a push of these refs. Without any it is the empty command list of git's probe.
pub(super) fn body<'r>(refs: impl IntoIterator<Item = &'r str>) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    for given in refs {
        let (old, new, name) = match (given.strip_prefix('+'), given.strip_prefix('-')) {
            (Some(name), _) => (ZERO, NEW, name),
            (_, Some(name)) => (OLD, ZERO, name),
            (None, None) => (OLD, NEW, given),
        };
        if !name.starts_with("refs/") || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!(
                "`{given}` is not a ref: use `refs/heads/x`, `+refs/heads/x` (new) or `-refs/heads/x` (deleted)"
            ));
        }
        let capabilities = if body.is_empty() { "\0 report-status side-band-64k agent=git/2" } else { "" };
        let command = format!("{old} {new} {name}{capabilities}");
        body.extend(format!("{:04x}{command}", command.len() + 4).bytes());
    }
    body.extend(b"0000");
    Ok(body)
}
