//! `sessionlog copy`: sessions between a directory and a database.

use std::time::Instant;

use clap::Args;
use sessionlog::{Store, StoreOptions};
use sessionlog_postgres::copy::{CopyReport, Place, copy, follow};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::failure::{Failure, Outcome, Result};
use crate::output;
use crate::store::{self, Dir, Reading, Writing};
use crate::{names, progress, safe};

/// Copy sessions to a database, or back
///
/// FROM and TO are a store's directory or the address of a database in Postgres, one of each or
/// two databases. Every session is read again to see that it is the same. A copy that was cut short
/// goes on where it stopped; sessions that are there as they are stay. What does not go along is
/// said at the end.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog copy DIR postgres://bot@db/chats            once; the gateway may run meanwhile
  sessionlog copy DIR postgres://bot@db/chats --follow   keep up until the switch
  sessionlog copy postgres://bot@db/chats DIR            and back, into a directory

A password stands best in the environment (PGPASSWORD), not on the command line, where others \
see it.

A session that cannot be copied is named, and the others are copied.

Exits with 1 if one could not be copied, or if TO has sessions that FROM has not: they are left \
alone, and named.")]
pub(crate) struct Copy {
    /// A store's directory, or postgres://…
    #[arg(value_name = "FROM")]
    from: String,
    /// A store's directory, or postgres://…
    #[arg(value_name = "TO")]
    to: String,
    /// Keep up with changes until Enter is pressed: stop the writers first
    #[arg(long)]
    follow: bool,
    /// Open the directory that is copied for reading only; IDs of messages and backups stay behind
    #[arg(long)]
    live: bool,
    /// The schema in the database
    #[arg(long, value_name = "NAME", default_value = SCHEMA)]
    schema: String,
    #[command(flatten)]
    how: Writing,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Copy {
    pub(crate) fn run(self) -> Result<Outcome> {
        let mut source = self.source(self.live || self.follow)?;
        let (to, written) = self.target()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let mut report = if self.follow {
            runtime.block_on(follow(&source.place, &to, enter()))
        } else {
            copied(&runtime, &source.place, &to)
        }?;
        if self.follow && !self.live && source.lacks.is_some() {
            // The writers have stopped, so the directory can be opened for writing.
            let begun = Instant::now();
            source = self.source(false)?;
            if source.lacks.is_none() {
                report = joined(&report, copied(&runtime, &source.place, &to)?, begun);
            }
        }
        // The open store knows the names. The result is told once all is closed.
        let told = self.told(&report, source.lacks.as_deref())?;
        if let Some(store) = source.store {
            store.close()?;
        }
        if let Some(store) = written {
            store.close()?;
        }
        output::lines(&told)?;
        Ok(Outcome::found(
            report.others.is_empty() && report.failed.is_empty(),
        ))
    }

    /// Opens the source. A directory is opened for writing unless it `is_live`, or another process
    /// writes to it.
    fn source(&self, is_live: bool) -> Result<Source> {
        if is_database(&self.from) {
            // A reader makes no tables: a mistyped schema would be an empty store.
            return Ok(Source::of(self.database(&self.from, false)?));
        }
        let dir = Dir {
            dir: self.from.clone().into(),
        };
        // PicoClaw takes no lock, and its directory has neither IDs nor backups.
        let is_own = dir.path().join(".sessionlog").is_dir();
        let mut lacks =
            (is_live && is_own).then(|| String::from("it was copied beside its gateway"));
        if is_own && !is_live {
            match dir.write(self.how) {
                Ok(store) => {
                    let place = Place::Directory(store.handle().exact_keys());
                    return Ok(Source {
                        store: Some(store),
                        ..Source::of(place)
                    });
                }
                Err(failure) => lacks = Some(failure.to_string()),
            }
        }
        let reading = dir.read()?;
        Ok(Source {
            lacks,
            place: Place::Directory(reading.chats.clone()),
            store: None,
            _reading: Some(reading),
        })
    }

    fn target(&self) -> Result<(Place, Option<Store>)> {
        if is_database(&self.to) {
            return Ok((self.database(&self.to, true)?, None));
        }
        if self.to.contains("://") {
            let what = format!("{} is no address of a database that is known", self.to);
            return Err(Failure::new(what).hint("it begins with postgres://, or names a directory"));
        }
        let dir = Dir {
            dir: self.to.clone().into(),
        };
        let store = dir.create_with(self.how, StoreOptions::new())?;
        Ok((Place::Directory(store.handle().exact_keys()), Some(store)))
    }

    fn database(&self, dsn: &str, migrates: bool) -> Result<Place> {
        let options = PostgresOptions::new(dsn).schema(&self.schema);
        let store = PostgresStore::open(options.migrate(migrates)).map_err(|error| {
            let failure = Failure::new(error.to_string());
            if matches!(error, sessionlog::Error::Unavailable { .. }) {
                failure.hint("is the server there, and does it take writes?")
            } else {
                failure
            }
        })?;
        for weakness in store.promise().weaknesses() {
            output::warn(&weakness);
        }
        Ok(Place::Database(store))
    }

    /// Returns the lines of the result. `lacks`: the reason that message IDs and backups stayed
    /// behind, if they did.
    fn told(&self, report: &CopyReport, lacks: Option<&str>) -> Result<Vec<String>> {
        let mut told = Vec::new();
        let next = lacks.map(|_| self.again());
        if self.json {
            told.push(serde_json::to_string(&serde_json::json!({
                "sessions": report.sessions,
                "lines": report.lines,
                "written": report.written,
                "message_ids": report.message_ids,
                "backups": report.backups,
                "others": report.others,
                "left": report.left,
                "open_for_reading_only": lacks,
                "next": next,
                "gap_seconds": report.gap.map(|gap| gap.as_secs_f64()),
                "failed": report.failed.iter().map(|(key, why)| serde_json::json!({
                    "key": key,
                    "error": why.to_string(),
                })).collect::<Vec<_>>(),
                "sha256": report.hash,
            }))?);
        } else {
            let sessions = output::count(report.sessions, "session");
            let lines = output::count(report.lines, "line");
            let written = report.written;
            told.push(format!("{sessions}, {lines}, {written} written now"));
            told.push(format!("sha256 of all: {}", report.hash));
            if let Some(gap) = report.gap {
                told.push(format!("all was there {gap:?} after the switch"));
            }
            for left in &report.left {
                told.push(names::text(&format!("left behind, {left}")));
            }
            if let (Some(why), Some(next)) = (lacks, &next) {
                let ids = format!("IDs of messages and backups were not copied: {why}");
                let next = format!(
                    "a message that is delivered again would be taken twice: stop the gateway, and \
                     before another one writes to the copy, run: {next}"
                );
                told.extend([ids, next].map(|line| safe::line(&line).into_owned()));
            }
            for key in &report.others {
                told.push(format!("only in the target: {}", names::name(key)));
            }
            for (key, why) in &report.failed {
                let line = names::text(&format!("not copied: {key}: {why}"));
                told.push(safe::line(&line).into_owned());
            }
        }
        Ok(told)
    }

    /// Returns the command that copies the parts left behind. A password is not repeated.
    fn again(&self) -> String {
        let has_password = self.to.contains("password")
            || self.to.split_once("://").is_some_and(|(_, rest)| {
                let user = rest.split(['/', '?']).next().unwrap_or_default();
                user.rsplit_once('@')
                    .is_some_and(|(user, _)| user.contains(':'))
            });
        let to = if has_password {
            String::from("TO")
        } else {
            store::quoted(self.to.as_ref())
        };
        let mut command = format!("{} {to}", store::command("copy", self.from.as_ref()));
        if self.schema != SCHEMA {
            command.push_str(" --schema ");
            command.push_str(&self.schema);
        }
        command
    }
}

/// The schema unless another is named.
const SCHEMA: &str = "sessionlog";

/// The source of a copy.
struct Source {
    place: Place,
    /// The reason that it is a directory open for reading only, if that leaves something behind.
    lacks: Option<String>,
    /// A directory that is open for writing.
    store: Option<Store>,
    _reading: Option<Reading>,
}

impl Source {
    fn of(place: Place) -> Self {
        Self {
            place,
            lacks: None,
            store: None,
            _reading: None,
        }
    }
}

fn copied(
    runtime: &tokio::runtime::Runtime,
    from: &Place,
    to: &Place,
) -> sessionlog::Result<CopyReport> {
    let bar = progress::endless("copying");
    let report = runtime.block_on(copy(from, to));
    bar.finish_and_clear();
    report
}

/// The report of two copies, the `second` of which began at that time.
fn joined(first: &CopyReport, mut second: CopyReport, begun: Instant) -> CopyReport {
    second.written += first.written;
    second.message_ids += first.message_ids;
    second.backups += first.backups;
    second.gap = first.gap.map(|gap| gap + begun.elapsed());
    second
}

fn is_database(name: &str) -> bool {
    let is_pairs = (name.contains("host=") || name.contains("dbname="))
        && !std::path::Path::new(name).exists();
    name.starts_with("postgres://") || name.starts_with("postgresql://") || is_pairs
}

/// Ready when a line was typed.
async fn enter() {
    let (typed, waiting) = tokio::sync::oneshot::channel();
    output::note("keeping up; stop the writers, then press Enter");
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        let _ = typed.send(());
    });
    let _ = waiting.await;
}
