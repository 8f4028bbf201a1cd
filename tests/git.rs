//! Real git through a real kleisd: clone, fetch and push, allowed and refused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests may panic"
)]

mod support;

use support::github::{GithubWorld, SECRET};
use support::text;

#[tokio::test(flavor = "multi_thread")]
async fn clone_fetch_and_an_allowed_push_work_and_the_origin_sees_only_the_injected_credential() {
    let hub = GithubWorld::start().await;
    hub.clone_site();
    hub.git_ok("site", &["fetch", "-q", "origin"]);
    hub.commit("file", b"new");
    hub.git_ok("site", &["push", "-q", "origin", "HEAD:refs/heads/dev/x"]);
    assert_eq!(hub.upstream_ref("refs/heads/dev/x").unwrap(), hub.git_ok("site", &["rev-parse", "HEAD"]).trim());
    for seen in hub.world.origin.seen() {
        assert_eq!(seen.count("authorization"), 1, "{seen:?}");
        assert!(seen.count("proxy-authorization") == 0 && !format!("{seen:?}").contains(&hub.token));
    }
    assert!(!hub.world.log().contains(SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn r86_a_push_to_another_ref_is_refused_with_the_reason_printed_by_git() {
    let hub = GithubWorld::start().await;
    hub.clone_site();
    hub.commit("file", b"new");
    let before = hub.upstream_ref("refs/heads/main");
    for refspec in ["HEAD:refs/heads/main", "+HEAD:refs/heads/main", ":refs/heads/main", "HEAD:refs/tags/v1"] {
        let out = hub.git("site", &["push", "origin", refspec]);
        let said = text(&out.stderr);
        assert!(!out.status.success(), "{refspec}");
        assert!(said.contains("remote:") && said.contains("refs/"), "{refspec}: {said}");
    }
    assert_eq!(hub.upstream_ref("refs/heads/main"), before);
    assert_eq!(hub.upstream_ref("refs/tags/v1"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_of_several_refs_where_one_is_refused_changes_none() {
    let hub = GithubWorld::start().await;
    hub.clone_site();
    hub.commit("file", b"new");
    let out = hub.git("site", &["push", "--atomic", "origin", "HEAD:refs/heads/dev/a", "HEAD:refs/heads/main"]);
    assert!(!out.status.success());
    assert_eq!(hub.upstream_ref("refs/heads/dev/a"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn r84_packs_above_the_post_buffer_stream_with_the_credential_on_the_first_try() {
    let hub = GithubWorld::start().await;
    hub.clone_site();
    for (name, mib) in [("five", 5), ("fifty", 50)] {
        hub.commit(name, &noise(mib << 20));
        let target = format!("HEAD:refs/heads/dev/{name}");
        hub.git_ok("site", &["push", "-q", "origin", &target]);
    }
    let buffered = ["-c", "http.postBuffer=104857600", "push", "-q", "origin", "HEAD:refs/heads/dev/buffered"];
    hub.commit("again", &noise(5 << 20));
    hub.git_ok("site", &buffered);
    for branch in ["five", "fifty", "buffered"] {
        assert!(hub.upstream_ref(&format!("refs/heads/dev/{branch}")).is_some(), "{branch}");
    }
    let unauthenticated = hub.world.origin.seen().iter().filter(|seen| seen.count("authorization") != 1).count();
    assert_eq!(unauthenticated, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn r83_clones_with_many_refs_work_over_both_protocol_versions() {
    let hub = GithubWorld::start().await;
    let bare = hub.repositories.path().join("acme/site.git");
    let head = hub.upstream_ref("refs/heads/main").unwrap();
    let refs: String = (0..500).map(|i| format!("create refs/tags/t{i} {head}\n")).collect();
    let input = hub.sandbox.path().join("refs");
    std::fs::write(&input, refs).unwrap();
    let update = std::process::Command::new("git")
        .arg("-C")
        .arg(&bare)
        .args(["update-ref", "--stdin"])
        .stdin(std::fs::File::open(input).unwrap())
        .status()
        .unwrap();
    assert!(update.success());
    for version in ["0", "1", "2"] {
        let (protocol, dir) = (format!("protocol.version={version}"), format!("v{version}"));
        hub.git_ok("", &["-c", &protocol, "clone", "-q", "https://github.com/acme/site.git", &dir]);
        assert_eq!(hub.git_ok(&dir, &["tag"]).lines().count(), 500);
        hub.git_ok(&dir, &["-c", &protocol, "fetch", "-q", "--tags", "origin"]);
    }
    let shallow = ["clone", "-q", "--depth", "1", "--filter=blob:none", "https://github.com/acme/site", "shallow"];
    hub.git_ok("", &shallow);
}

#[tokio::test(flavor = "multi_thread")]
async fn push_options_reach_the_upstream() {
    let hub = GithubWorld::start().await;
    hub.clone_site();
    hub.commit("file", b"new");
    hub.git_ok("site", &["push", "-q", "-o", "ci.skip", "origin", "HEAD:refs/heads/dev/options"]);
    assert!(hub.upstream_ref("refs/heads/dev/options").is_some());
}

/// Bytes that don't compress, the same in each run.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ length as u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
