//! The gateway as Prometheus sees it, and the dashboard beside that. A panel that asks for a
//! number which nobody exports stays empty, and whoever looks takes it for rest.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_types,
    reason = "the test plays Prometheus, and fails loudly"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

const DASHBOARD: &str = include_str!("../../grafana/sessionlog.json");

/// An address at which no program listens. Each is returned once. The exporter cannot be handed a
/// listener, and a port that the system lends could be another program's by the time the exporter
/// listens. Linux lends no port below 32,768.
fn fresh_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 20_000).unwrap();
    let mut ports = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed))
        .map(|nth| 10_000 + (first + nth % 20_000) % 20_000);
    let port = ports.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    SocketAddr::from(([127, 0, 0, 1], port.unwrap()))
}

/// A gateway that ends with the test.
struct Gateway {
    child: Child,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Gateway {
    fn start() -> Self {
        let address = fresh_address();
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_sessionlog-prometheus"))
            .arg("--dir")
            .arg(dir.path())
            .args(["--metrics-listen", &address.to_string()])
            .args(["--chats", "8", "--pause", "1"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert!(line.contains(&address.to_string()), "{line}");
        Self {
            child,
            address,
            _dir: dir,
        }
    }

    fn scrape(&self) -> Scraped {
        let mut connection = TcpStream::connect(self.address).unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        connection.write_all(request).unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        Scraped { text }
    }

    /// Scrapes until it `is` so.
    fn scrape_until(&self, is: impl Fn(&Scraped) -> bool) -> Scraped {
        let begun = Instant::now();
        loop {
            let scraped = self.scrape();
            if is(&scraped) {
                return scraped;
            }
            assert!(begun.elapsed() < Duration::from_mins(1), "{}", scraped.text);
            std::thread::yield_now();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Scraped {
    text: String,
}

impl Scraped {
    /// Names and types.
    fn types(&self) -> BTreeMap<&str, &str> {
        let lines = self.text.lines();
        let lines = lines.filter_map(|line| line.strip_prefix("# TYPE sessionlog_"));
        lines.map(|line| line.split_once(' ').unwrap()).collect()
    }

    /// The sum of a number over its labels; `None` if it is not there.
    fn number(&self, name: &str) -> Option<f64> {
        let is_its = |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        let found = self.text.lines().filter(is_its);
        let found: Vec<f64> = found
            .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
            .collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }
}

/// The names that a dashboard asks for, by the panel's title.
fn asked() -> BTreeSet<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut asked = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let names = target["expr"].as_str().unwrap();
            let names = names.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            for name in names.filter_map(|word| word.strip_prefix("sessionlog_")) {
                asked.insert((title.to_owned(), name.to_owned()));
            }
        }
    }
    asked
}

/// The number behind what Prometheus makes of a histogram.
fn base<'a>(name: &'a str, types: &BTreeMap<&str, &str>) -> &'a str {
    let parts = ["_bucket", "_sum", "_count"];
    let base = parts.iter().find_map(|part| name.strip_suffix(part));
    base.filter(|base| types.get(base) == Some(&"histogram"))
        .unwrap_or(name)
}

#[test]
fn every_number_of_the_dashboard_is_exported_and_every_exported_one_is_in_it() {
    let gateway = Gateway::start();
    let scraped = gateway.scrape_until(|scraped| {
        let commits = scraped.number("sessionlog_commits_total");
        commits.is_some_and(|commits| commits > 0.0)
    });
    let types = scraped.types();
    let asked = asked();
    let unknown: Vec<_> = asked
        .iter()
        .filter(|(_, name)| !types.contains_key(base(name, &types)))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?} of {types:?}");
    let shown: BTreeSet<_> = asked.iter().map(|(_, name)| base(name, &types)).collect();
    let hidden: Vec<_> = types.keys().filter(|name| !shown.contains(*name)).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}

#[test]
fn what_is_scraped_follows_what_the_gateway_does() {
    let gateway = Gateway::start();
    let is_there = |scraped: &Scraped, name: &str, least: f64| {
        let number = scraped.number(&format!("sessionlog_{name}"));
        number.is_some_and(|number| number >= least)
    };
    let scraped = gateway.scrape_until(|scraped| {
        is_there(scraped, "messages_total", 100.0)
            && is_there(scraped, "sync_seconds_count", 10.0)
            && is_there(scraped, "commit_seconds_count", 10.0)
            && is_there(scraped, "commit_records_sum", 50.0)
            && is_there(scraped, "sessions", 8.0)
            && is_there(scraped, "sessions_resident", 8.0)
            && is_there(scraped, "journal_bytes", 1.0)
            && is_there(scraped, "free_bytes", 1.0)
    });
    assert_eq!(scraped.number("sessionlog_poisoned"), Some(0.0));
    let syncs = scraped.number("sessionlog_sync_seconds_sum").unwrap();
    assert!(
        syncs > 0.0 && syncs < 600.0,
        "seconds, not nanoseconds: {syncs}"
    );
    assert!(
        scraped
            .text
            .contains("# HELP sessionlog_commit_seconds How long")
    );
    assert!(scraped.text.contains("reason=\"full\""));
    assert!(!scraped.text.contains("telegram"), "{}", scraped.text);
}

/// What Grafana asks of a dashboard that is imported.
#[test]
fn the_dashboard_has_the_shape_that_grafana_imports() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    for field in [
        "title",
        "uid",
        "schemaVersion",
        "panels",
        "templating",
        "time",
    ] {
        assert!(!dashboard[field].is_null(), "{field}");
    }
    assert!(dashboard["id"].is_null());
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let place = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24);
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "{} overlaps", panel["title"]);
            }
        }
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string());
        let targets = panel["targets"].as_array().unwrap();
        let refs: BTreeSet<_> = targets
            .iter()
            .map(|t| t["refId"].as_str().unwrap())
            .collect();
        assert!(!targets.is_empty() && refs.len() == targets.len());
        for target in targets {
            let expr = target["expr"].as_str().unwrap();
            assert!(expr.contains("dir=~\"$dir\""), "{expr}");
            assert_eq!(
                expr.matches('(').count(),
                expr.matches(')').count(),
                "{expr}"
            );
        }
    }
}
