//! Metrics in Prometheus' text format.

use std::sync::OnceLock;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::credential;
use crate::proxy::State;
use crate::proxy::reply::Reply;

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// From 100 µs to the minutes that a model thinks.
const SECONDS: &[f64] = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];
const FUEL: &[f64] = &[10.0, 100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0];

/// Installs the recorder of this process, once. Where another one is installed already (an embedding
/// program's), that one keeps counting and ours has nothing to show.
pub fn install() -> Result<(), BuildError> {
    if RECORDER.get().is_some() {
        return Ok(());
    }
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_fuel".to_owned()), FUEL)?
        .build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_ok() {
        let _ = RECORDER.set(handle);
    }
    Ok(())
}

/// Folds what histograms have gathered, again and again: without a scraper they would grow for ever.
pub async fn upkeep() {
    let mut tick = tokio::time::interval(Duration::from_secs(5));
    loop {
        tick.tick().await;
        if let Some(handle) = RECORDER.get() {
            handle.run_upkeep();
        }
    }
}

/// All meters as text.
fn render(state: &State) -> String {
    gauges(state);
    RECORDER.get().map(PrometheusHandle::render).unwrap_or_default()
}

/// What is looked up when somebody asks, rather than counted.
#[allow(clippy::cast_precision_loss, reason = "gauges are far below 2^52")]
fn gauges(state: &State) {
    let snapshot = state.snapshot();
    metrics::gauge!("kleis_config_generation").set(snapshot.generation as f64);
    let failed = state.config.last_reload().error().is_some();
    metrics::gauge!("kleis_config_reload_failed").set(if failed { 1.0 } else { 0.0 });
    metrics::gauge!("kleis_ca_days_left").set(state.ca.days_left() as f64);
    metrics::gauge!("kleis_relays_open").set(state.watchers.len() as f64);
    metrics::gauge!("kleis_tokens_cached").set(state.holders.len() as f64);
    metrics::gauge!("kleis_revocations").set(state.operator.revocations().len() as f64);
    for (name, current) in state.vault.states() {
        let failing = matches!(current, credential::State::Failing { .. });
        metrics::gauge!("kleis_credential_failing", "credential" => name.to_string()).set(if failing {
            1.0
        } else {
            0.0
        });
    }
}

/// A `metrics` listener: no token, nothing else.
pub fn answer<B>(state: &State, request: &Request<B>) -> Response<Reply> {
    let status = match (request.uri().path(), request.method()) {
        ("/metrics", &Method::GET | &Method::HEAD) => return page(state),
        ("/metrics", _) => StatusCode::METHOD_NOT_ALLOWED,
        _ => StatusCode::NOT_FOUND,
    };
    let mut response = Response::new(Reply::empty());
    *response.status_mut() = status;
    response
}

/// The metrics as an answer.
pub fn page(state: &State) -> Response<Reply> {
    let mut response = Response::new(Reply::text(render(state)));
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}
