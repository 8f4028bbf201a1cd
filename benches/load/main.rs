//! What kleisd costs beside a MITM of the same stack that decides nothing (DESIGN §19).
//!
//! `cargo bench --bench load [-- --secs 3 --rounds 3 SCENARIO…]`
//!
//! `… -- beside-peers DIR` writes a home and a table, `DIR/kleisd.toml`, with which a bench of other proxies takes
//! kleisd in.
//!
//! In one run and on one machine: a TLS origin, the bare MITM, kleisd with a full policy and its audit; the same
//! closed loop of requests through each in turn; CPU time of the proxy alone, from the kernel's counters.
//! Everything is on 127.0.0.1. Compare ratios within a run, never figures of different runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a bench may panic"
)]

mod bare;
mod client;
mod contender;
mod origin;
mod usage;

use std::time::Duration;

use bare::Fault;
use client::{Scenario, Target};
use contender::Contender;

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "ka1", about: "keep-alive, h1, 1 tunnel", tunnels: 1, ..PLAIN },
    Scenario { name: "ka16", about: "keep-alive, h1, 16 tunnels", tunnels: 16, ..PLAIN },
    Scenario { name: "ka64", about: "keep-alive, h1, 64 tunnels", tunnels: 64, ..PLAIN },
    Scenario { name: "h2x50", about: "h2, 1 tunnel, 50 streams", h2: true, streams: 50, ..PLAIN },
    Scenario { name: "hs", about: "a new tunnel for each request, 8 at a time", tunnels: 8, fresh: true, ..PLAIN },
    Scenario { name: "down", about: "64 MiB down, h1", path: "/big/67108864", count: Some(8), ..PLAIN },
    Scenario { name: "up", about: "64 MiB up, h1", path: "/sink", upload: 64 << 20, count: Some(8), ..PLAIN },
    Scenario { name: "down2", about: "64 MiB down, h2", h2: true, path: "/big/67108864", count: Some(8), ..PLAIN },
    Scenario {
        name: "up2",
        about: "64 MiB up, h2",
        h2: true,
        path: "/sink",
        upload: 64 << 20,
        count: Some(8),
        ..PLAIN
    },
];

const PLAIN: Scenario = Scenario {
    name: "",
    about: "",
    h2: false,
    tunnels: 1,
    streams: 1,
    fresh: false,
    path: "/small",
    upload: 0,
    count: None,
};

fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|role| role == "bare") {
        return bare::run(&arguments[1..]);
    }
    if let [role, dir, ..] = arguments.as_slice()
        && role == "beside-peers"
    {
        let dir = std::path::absolute(dir)?;
        return tokio::runtime::Runtime::new()?.block_on(contender::beside_peers(&dir));
    }
    let value = |name: &str, otherwise: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(otherwise)
    };
    let (secs, rounds, idle) = (value("--secs", 3), value("--rounds", 3), value("--idle", 500));
    let wanted: Vec<_> = SCENARIOS
        .iter()
        .filter(|scenario| {
            let named = |name: &&String| SCENARIOS.iter().any(|scenario| scenario.name == **name) || *name == "idle";
            let mut names = arguments.iter().filter(named).peekable();
            names.peek().is_none() || names.any(|name| name == scenario.name)
        })
        .collect();
    tokio::runtime::Runtime::new()?.block_on(async {
        let dir = tempfile::tempdir()?;
        let origin_ca = dir.path().join("origin.pem");
        let (listener, address) = origin::bind().await?;
        let ca_out = origin_ca.clone();
        tokio::spawn(async move { origin::serve(listener, &ca_out).await.map_err(|e| e.to_string()) });
        while !origin_ca.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("| scenario | proxy | requests/s | MB/s | p50 µs | p99 µs | CPU µs/request | CPU s/GB | × bare |");
        println!("|---|---|---|---|---|---|---|---|---|");
        for scenario in wanted {
            let mut bare_cpu = None;
            for which in ["bare", "guarded", "kleisd"] {
                let contender = match which {
                    "kleisd" => Contender::kleisd(&dir.path().join(which), address, &origin_ca).await?,
                    _ => Contender::bare(dir.path(), address, &origin_ca, which == "guarded")?,
                };
                let row = measure(&contender, *scenario, Duration::from_secs(secs), rounds).await?;
                let bare = *bare_cpu.get_or_insert(row.0);
                println!("{} {:.2} |", row.1, row.0 / bare);
                drop(contender);
                let _ = std::fs::remove_dir_all(dir.path().join(which));
            }
        }
        for which in ["bare", "kleisd"] {
            let contender = match which {
                "kleisd" => Contender::kleisd(&dir.path().join("idle"), address, &origin_ca).await?,
                _ => Contender::bare(dir.path(), address, &origin_ca, false)?,
            };
            for h2 in [false, true] {
                let kib = idle_tunnels(&contender, h2, idle).await?;
                println!("{}: an idle {} tunnel takes {kib:.1} KiB", contender.name, if h2 { "h2" } else { "h1" });
            }
        }
        Ok(())
    })
}

/// The median round: CPU for each request, and its row.
async fn measure(
    contender: &Contender,
    scenario: Scenario,
    time: Duration,
    rounds: u64,
) -> Result<(f64, String), Fault> {
    let target = Target::new(contender.address, &contender.login, &contender.ca, scenario.h2)?;
    let warm = Scenario { count: Some(60), path: "/small", upload: 0, ..scenario };
    client::run(&target, warm, time).await.map_err(|e| format!("{} {}: {e}", contender.name, scenario.name))?;
    let mut rows = Vec::new();
    for _ in 0..rounds {
        let before = usage::cpu(contender.pid());
        let outcome = client::run(&target, scenario, time).await?;
        let cpu = (usage::cpu(contender.pid()) - before).as_secs_f64();
        let (took, requests) = (outcome.took.as_secs_f64(), outcome.requests as f64);
        let gigabytes = outcome.bytes as f64 / 1e9;
        let row = format!(
            "| {} | {} | {:.0} | {:.0} | {} | {} | {:.1} | {:.2} |",
            scenario.about,
            contender.name,
            requests / took,
            gigabytes * 1e3 / took,
            outcome.percentile(0.5).as_micros(),
            outcome.percentile(0.99).as_micros(),
            cpu * 1e6 / requests,
            if scenario.count.is_some() { cpu / gigabytes } else { 0.0 },
        );
        rows.push((cpu * 1e6 / requests, row));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(rows.swap_remove(rows.len() / 2))
}

/// Memory of each tunnel that has served one request and waits.
async fn idle_tunnels(contender: &Contender, h2: bool, count: u64) -> Result<f64, Fault> {
    let target = Target::new(contender.address, &contender.login, &contender.ca, h2)?;
    let warm = Scenario { count: Some(60), h2, tunnels: 8, fresh: true, ..PLAIN };
    client::run(&target, warm, Duration::from_secs(10)).await?;
    let before = usage::resident(contender.pid());
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(client::held(&target, h2).await?);
    }
    let after = usage::resident(contender.pid());
    Ok((after.saturating_sub(before)) as f64 / count as f64)
}
