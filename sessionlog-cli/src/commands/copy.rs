//! `sessionlog copy`: sessions between a directory and a database.

use clap::Args;
use sessionlog::{Store, StoreOptions};
use sessionlog_postgres::copy::{CopyReport, Place, copy, follow};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, Output};
use crate::store::{Dir, Writing};
use crate::{progress, safe};

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
    /// The schema in the database
    #[arg(long, value_name = "NAME", default_value = "sessionlog")]
    schema: String,
    #[command(flatten)]
    how: Writing,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Copy {
    pub(crate) fn run(self) -> Result<Outcome> {
        let (from, _from) = self.source()?;
        let (to, written) = self.target()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let report = if self.follow {
            runtime.block_on(follow(&from, &to, enter()))
        } else {
            let bar = progress::endless("copying");
            let report = runtime.block_on(copy(&from, &to));
            bar.finish_and_clear();
            report
        };
        let report = report?;
        if let Some(store) = written {
            store.close()?;
        }
        self.tell(&report)?;
        Ok(Outcome::found(
            report.others.is_empty() && report.failed.is_empty(),
        ))
    }

    fn source(&self) -> Result<(Place, Option<crate::store::Reading>)> {
        if is_database(&self.from) {
            // Who reads makes no tables: a mistyped schema would be an empty store.
            return Ok((self.database(&self.from, false)?, None));
        }
        let dir = Dir {
            dir: self.from.clone().into(),
        };
        let store = dir.read()?;
        Ok((Place::Directory(store.chats.clone()), Some(store)))
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

    fn tell(&self, report: &CopyReport) -> Result<()> {
        let mut out = Output::new();
        if self.json {
            out.json(&serde_json::json!({
                "sessions": report.sessions,
                "lines": report.lines,
                "written": report.written,
                "message_ids": report.message_ids,
                "backups": report.backups,
                "others": report.others,
                "left": report.left,
                "gap_seconds": report.gap.map(|gap| gap.as_secs_f64()),
                "failed": report.failed.iter().map(|(key, why)| serde_json::json!({
                    "key": key,
                    "error": why.to_string(),
                })).collect::<Vec<_>>(),
                "sha256": report.hash,
            }))?;
        } else {
            let sessions = output::count(report.sessions, "session");
            let lines = output::count(report.lines, "line");
            let written = report.written;
            out.line(&format!("{sessions}, {lines}, {written} written now"))?;
            out.line(&format!("sha256 of all: {}", report.hash))?;
            if let Some(gap) = report.gap {
                out.line(&format!("all was there {gap:?} after the switch"))?;
            }
            for left in &report.left {
                out.line(&format!("left behind, {left}"))?;
            }
            for key in &report.others {
                out.line(&safe::line(&format!("only in the target: {key}")))?;
            }
            for (key, why) in &report.failed {
                out.line(&safe::line(&format!("not copied: {key}: {why}")))?;
            }
        }
        out.finish()
    }
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
