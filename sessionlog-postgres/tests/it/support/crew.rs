//! Processes that write as fast as they are answered: each is this test program again, with
//! callers of its own over a store of its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sessionlog_postgres::{PostgresOptions, PostgresStore};

use super::load::{Load, Told};

/// How many processes a crew has, and callers each of them.
const PROCESSES: usize = 4;
const CALLERS: usize = 2;

/// Names the database and the schema for a process of a crew, and says which of them it is.
const MEMBER: &str = "SESSIONLOG_TEST_CREW";

/// Four processes that append to the sessions `s0` to `s2`, two callers in each.
pub(crate) struct Crew(Vec<Member>);

struct Member {
    child: Child,
    acknowledged: Arc<AtomicU64>,
    /// Every line that it says: a caller's session, a text, and what was answered.
    lines: Option<JoinHandle<Vec<String>>>,
}

impl Crew {
    pub(crate) fn start(dsn: &str, schema: &str) -> Self {
        let members = (0..PROCESSES).map(|number| Member::start(dsn, schema, number));
        Self(members.collect())
    }

    /// Waits until each process had so many more appends acknowledged.
    pub(crate) fn wait_for(&self, more: u64) {
        let now = |member: &Member| member.acknowledged.load(Ordering::Relaxed);
        let wanted: Vec<u64> = self.0.iter().map(|member| now(member) + more).collect();
        let begun = Instant::now();
        while self
            .0
            .iter()
            .zip(&wanted)
            .any(|(one, most)| now(one) < *most)
        {
            assert!(
                begun.elapsed().as_secs() < 90,
                "a process has nothing acknowledged any more"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Has all finish what they began; what each caller was told.
    pub(crate) fn stop(mut self) -> Vec<Told> {
        let mut told: BTreeMap<(String, String), Told> = BTreeMap::new();
        for member in &mut self.0 {
            for line in member.stop() {
                let mut parts = line.split(' ');
                let [key, text, answer] =
                    [parts.next(), parts.next(), parts.next()].map(|part| part.unwrap().to_owned());
                let caller = text.split('-').next().unwrap().to_owned();
                let one = told.entry((key.clone(), caller));
                let one = one.or_insert_with(|| Told {
                    key,
                    said: Vec::new(),
                });
                let there = match &*answer {
                    "unknown" => None,
                    answer => Some(answer == "yes"),
                };
                one.said.push((text, there));
            }
        }
        assert_eq!(told.len(), PROCESSES * CALLERS, "every caller wrote");
        told.into_values().collect()
    }
}

impl Member {
    fn start(dsn: &str, schema: &str, number: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "support::crew::member", "--nocapture"])
            .env(MEMBER, format!("{number}\n{schema}\n{dsn}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let acknowledged = Arc::new(AtomicU64::new(0));
        let count = acknowledged.clone();
        let lines = std::thread::spawn(move || {
            let lines = said.lines().map_while(Result::ok);
            // What the test harness says of itself is not ours.
            let lines = lines.filter_map(|line| line.strip_prefix("told ").map(str::to_owned));
            let told = lines.inspect(|line| {
                count.fetch_add(u64::from(line.ends_with("yes")), Ordering::Relaxed);
            });
            told.collect()
        });
        Self {
            child,
            acknowledged,
            lines: Some(lines),
        }
    }

    fn stop(&mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let lines = self.lines.take().unwrap().join().unwrap();
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "a process failed: {ended}");
        lines
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // After a test that failed. One that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process of a crew: it writes until its input ends. In the test's own process nothing.
#[test]
fn member() {
    let Ok(order) = std::env::var(MEMBER) else {
        return;
    };
    let mut order = order.splitn(3, '\n');
    let [number, schema, dsn] = [order.next(), order.next(), order.next()].map(Option::unwrap);
    let number: usize = number.parse().unwrap();
    let options = PostgresOptions::new(dsn)
        .schema(schema)
        .lanes(2)
        .retry(Duration::from_mins(1));
    let store = PostgresStore::open(options).unwrap();
    let load = Load::default();
    std::thread::scope(|scope| {
        for caller in number * CALLERS..(number + 1) * CALLERS {
            let place = (format!("s{}", caller % 3), format!("c{caller}"));
            load.caller_that_tells(scope, &store, place, |key, text, there| {
                let there = match there {
                    Some(true) => "yes",
                    Some(false) => "no",
                    None => "unknown",
                };
                // One write for a line: another caller's does not get between.
                let line = format!("told {key} {text} {there}\n");
                std::io::stdout().write_all(line.as_bytes()).unwrap();
            });
        }
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        load.stop();
    });
    store.close().wait().unwrap();
}
