//! Plays GitHub for the repositories in one directory: git over HTTP by the real `git http-backend`,
//! and a few paths of the REST API.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdout, Command};

use crate::cli::failure::Failure;
use crate::cli::origin::{AnswerBody, Play, answer};

/// The names that it plays.
pub const NAMES: &[&str] = &["github.com", "api.github.com", "uploads.github.com"];

/// The most that the head of a CGI answer may take.
const MAX_CGI_HEAD: usize = 16 * 1024;

/// GitHub as far as the demo needs it, for the bare repositories `ROOT/OWNER/NAME.git`. A request
/// without credentials, or with others than `secret`, gets a 401 as the real one would give.
pub fn github(root: PathBuf, secret: String) -> Arc<Play> {
    let accepted = Arc::new(Accepted::new(&secret));
    Arc::new(move |request| {
        let (root, accepted) = (root.clone(), accepted.clone());
        Box::pin(async move { route(request, &root, &accepted).await })
    })
}

/// The two spellings in which GitHub takes a token.
struct Accepted {
    basic: String,
    bearer: String,
}

impl Accepted {
    fn new(secret: &str) -> Accepted {
        use base64::Engine;
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{secret}"));
        Accepted { basic: format!("Basic {pair}"), bearer: format!("Bearer {secret}") }
    }

    fn accepts(&self, request: &Request<Incoming>) -> bool {
        let given = request.headers().get(http::header::AUTHORIZATION).map(HeaderValue::as_bytes);
        given.is_some_and(|value| value == self.basic.as_bytes() || value == self.bearer.as_bytes())
    }
}

async fn route(request: Request<Incoming>, root: &Path, accepted: &Accepted) -> Response<AnswerBody> {
    if !accepted.accepts(&request) {
        let mut refusal = answer(401, "application/json", json!({"message": "Bad credentials"}).to_string());
        let challenge = HeaderValue::from_static("Basic realm=\"GitHub\"");
        refusal.headers_mut().insert(http::header::WWW_AUTHENTICATE, challenge);
        return refusal;
    }
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match (request.method().as_str(), segments.as_slice()) {
        (_, [owner, repository, rest @ ..]) if is_git(rest) => {
            let name = repository.strip_suffix(".git").unwrap_or(repository);
            let path_info = format!("/{owner}/{name}.git/{}", rest.join("/"));
            match backend(request, root, &path_info).await {
                Ok(response) => response,
                Err(error) => answer(500, "text/plain", format!("git http-backend: {error}\n")),
            }
        }
        ("GET", ["user"]) => answer(200, "application/json", json!({"login": "demo-bot"}).to_string()),
        ("GET", ["repos", owner, name]) => answer(
            200,
            "application/json",
            json!({"full_name": format!("{owner}/{name}"), "private": true}).to_string(),
        ),
        ("POST", ["repos", owner, name, "pulls"]) => {
            let url = format!("https://github.com/{owner}/{name}/pull/1");
            answer(201, "application/json", json!({"number": 1, "html_url": url}).to_string())
        }
        ("POST", ["graphql"]) => {
            answer(200, "application/json", json!({"data": {"viewer": {"login": "demo-bot"}}}).to_string())
        }
        _ => answer(404, "application/json", json!({"message": "Not Found"}).to_string()),
    }
}

/// The paths of git's smart protocol below a repository (gitprotocol-http).
fn is_git(rest: &[&str]) -> bool {
    matches!(rest, ["info", "refs"] | ["git-upload-pack"] | ["git-receive-pack"])
}

/// Runs `git http-backend` as a CGI program (RFC 3875) for one request, both ways at once.
async fn backend(request: Request<Incoming>, root: &Path, path_info: &str) -> std::io::Result<Response<AnswerBody>> {
    let (parts, mut body) = request.into_parts();
    let mut child = spawn_backend(&parts, root, path_info)?;
    let missing = || std::io::Error::other("no pipe to git http-backend");
    let mut stdin = child.stdin.take().ok_or_else(missing)?;
    let mut stdout = child.stdout.take().ok_or_else(missing)?;
    tokio::spawn(async move {
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            if stdin.write_all(&data).await.is_err() {
                return;
            }
        }
    });
    let (head, rest) = read_head(&mut stdout).await?;
    Ok(cgi_response(&head, rest, stdout, child))
}

fn spawn_backend(parts: &http::request::Parts, root: &Path, path_info: &str) -> std::io::Result<Child> {
    let field = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let mut command = Command::new("git");
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "demo-bot")
        .env("PATH_INFO", path_info)
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("CONTENT_TYPE", field("content-type"))
        .env("HTTP_CONTENT_ENCODING", field("content-encoding"))
        .env("GIT_PROTOCOL", field("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    if let Some(length) = parts.headers.get(http::header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()) {
        command.env("CONTENT_LENGTH", length);
    }
    command.spawn()
}

/// Reads up to the blank line behind the CGI head; what was read beyond it is handed on.
async fn read_head(stdout: &mut ChildStdout) -> std::io::Result<(Vec<u8>, Bytes)> {
    let mut buffer = BytesMut::new();
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = buffer.split_to(end + 4);
            return Ok((head.to_vec(), buffer.freeze()));
        }
        if stdout.read_buf(&mut buffer).await? == 0 || buffer.len() > MAX_CGI_HEAD {
            return Err(std::io::Error::other("it answered without a head"));
        }
    }
}

fn cgi_response(head: &[u8], rest: Bytes, stdout: ChildStdout, child: Child) -> Response<AnswerBody> {
    let mut response = Response::new(stream(rest, stdout, child));
    for line in String::from_utf8_lossy(head).lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().and_then(|code| code.parse().ok());
            *response.status_mut() = code.unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        } else if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// The rest of the child's output; the child is reaped when its output ends and killed if the client
/// goes away before.
fn stream(rest: Bytes, stdout: ChildStdout, child: Child) -> AnswerBody {
    let first = futures_util::stream::iter([Ok(Frame::data(rest))]);
    let then = futures_util::stream::unfold((stdout, child), |(mut stdout, mut child)| async move {
        let mut buffer = BytesMut::with_capacity(64 * 1024);
        match stdout.read_buf(&mut buffer).await {
            Ok(0) => {
                let _ = child.wait().await;
                None
            }
            Ok(_) => Some((Ok(Frame::data(buffer.freeze())), (stdout, child))),
            Err(error) => Some((Err(error), (stdout, child))),
        }
    });
    BodyExt::boxed_unsync(StreamBody::new(first.chain(then)))
}

/// A bare repository with one commit on `main`.
pub(super) async fn seed(root: &Path, owner: &str, name: &str) -> Result<(), Failure> {
    let bare = root.join(owner).join(format!("{name}.git"));
    let work = root.join("seed");
    for dir in [&bare, &work] {
        std::fs::create_dir_all(dir).map_err(Failure::outside)?;
    }
    std::fs::write(work.join("README"), "the site\n").map_err(Failure::outside)?;
    let target = bare.display().to_string();
    let steps: [(&Path, &[&str]); 6] = [
        (&bare, &["init", "-q", "--bare", "-b", "main"]),
        (&bare, &["config", "http.receivepack", "true"]),
        (&work, &["init", "-q", "-b", "main"]),
        (&work, &["add", "."]),
        (&work, &["-c", "user.name=owner", "-c", "user.email=owner@acme.test", "commit", "-q", "-m", "first"]),
        (&work, &["push", "-q", &target, "main"]),
    ];
    for (dir, arguments) in steps {
        let output = Command::new("git").arg("-C").arg(dir).args(arguments).output().await;
        let output =
            output.map_err(|error| Failure::Outside(format!("can't run `git`: {error}; the demo needs it")))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Failure::Outside(format!("git {}: {said}", arguments.join(" "))));
        }
    }
    Ok(())
}
