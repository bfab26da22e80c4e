//! `sessionlog retention`: sessions that are too old or too many.

use std::time::Duration;

use clap::Args;
use comfy_table::CellAlignment;
use sessionlog::{Expired, RetentionPolicy, RetentionReason, StoreHandle};

use crate::commands::ls;
use crate::failure::{Outcome, Result};
use crate::output::{self, Output};
use crate::select::Select;
use crate::store::{Dir, Writing};
use crate::{names, safe, times};

/// Delete sessions that are too old or too many
///
/// Shows what would go, and deletes it only with --apply: for good, past the trash, and pinned
/// sessions, too. Sessions that were changed last stay
/// longest. Agents' main sessions stay, unless --with-main is given, and so does what says no
/// time. A session that is written to meanwhile stays. --apply needs DIR to itself: a running
/// gateway applies policies itself, through the library.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog retention DIR --age 90d                   what has not changed for 90 days
  sessionlog retention DIR --count 10000 --bytes 20GiB --channel telegram
  sessionlog retention DIR --age 1y --apply            delete it
  sessionlog retention DIR --deleted 30d --apply       forget what was deleted before

Exits with 0 also if nothing goes, and 1 if the files of a session could not be read.")]
pub(crate) struct Retention {
    #[command(flatten)]
    dir: Dir,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    select: Select,
    /// Also apply to agents' main sessions
    #[arg(long)]
    with_main: bool,
    /// Delete, instead of only showing what would be
    #[arg(long)]
    apply: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    writing: Writing,
}

/// What may stay.
#[derive(Args, Clone, Copy, Debug)]
#[group(required = true, multiple = true)]
struct Limits {
    /// Nothing that did not change for longer, such as 90d or 6mo
    #[arg(long, value_name = "TIME", value_parser = times::parse_length)]
    age: Option<Duration>,
    /// At most so many sessions
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// At most so many bytes, such as 20GiB
    #[arg(long, value_name = "SIZE")]
    bytes: Option<bytesize::ByteSize>,
    /// Nothing that was deleted longer ago, such as 30d; 0d for nothing deleted at all
    #[arg(long, value_name = "TIME", value_parser = times::parse_length)]
    deleted: Option<Duration>,
}

impl Retention {
    pub(crate) fn run(self) -> Result<Outcome> {
        if self.apply {
            let store = self.dir.write(self.writing)?;
            let outcome = self.apply(&store.handle())?;
            store.close()?;
            return Ok(outcome);
        }
        let store = self.dir.read()?;
        let plan = store.chats.retention(self.policy()).plan().wait()?;
        let mut out = Output::new();
        if self.json {
            out.json(&plan)?;
        } else {
            show(&mut out, &plan.expired)?;
            let go = output::count(plan.expired.len(), "session");
            let bytes = plan.expired.iter().map(|gone| gone.session.bytes).sum();
            let kept = plan.kept;
            out.line(&format!(
                "{go} ({}) would go, {kept} stay",
                output::bytes(bytes)
            ))?;
        }
        out.finish()?;
        if !self.json && !plan.expired.is_empty() {
            output::note("--apply deletes them for good, with their backups and archives");
        }
        Ok(unreadable(&plan.unreadable))
    }

    fn apply(&self, chats: &StoreHandle) -> Result<Outcome> {
        let report = chats.retention(self.policy()).apply().wait()?;
        let mut out = Output::new();
        if self.json {
            out.json(&report)?;
        } else {
            show(&mut out, &report.deleted)?;
            out.line(&format!(
                "{} deleted for good",
                output::count(report.deleted.len(), "session")
            ))?;
            for key in &report.changed {
                let name = names::name(key);
                out.line(&format!("{name}: changed meanwhile, and stays"))?;
            }
        }
        out.finish()?;
        Ok(unreadable(&report.unreadable))
    }

    fn policy(&self) -> RetentionPolicy {
        let mut policy = RetentionPolicy::new()
            .among(self.select.query())
            .with_main(self.with_main);
        let Limits {
            age,
            count,
            bytes,
            deleted,
        } = self.limits;
        if let Some(deleted) = deleted {
            policy = policy.deleted(deleted);
        }
        if let Some(age) = age {
            policy = policy.age(age);
        }
        if let Some(count) = count {
            policy = policy.count(count);
        }
        if let Some(bytes) = bytes {
            policy = policy.bytes(bytes.as_u64());
        }
        policy
    }
}

fn unreadable(keys: &[String]) -> Outcome {
    for key in keys {
        output::warn(&format!("the files of {key:?} cannot be read; it stays"));
    }
    Outcome::found(keys.is_empty())
}

fn show(out: &mut Output, expired: &[Expired]) -> Result<()> {
    if expired.is_empty() {
        return Ok(());
    }
    let mut table = output::table(["SESSION", "CHANGED", "SIZE", "WHY"]);
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for Expired {
        session, reason, ..
    } in expired
    {
        let why = match reason {
            RetentionReason::Age => "too old",
            RetentionReason::Count => "over the count",
            RetentionReason::Bytes => "over the bytes",
            RetentionReason::Deleted => "deleted",
            _ => "over a limit",
        };
        table.add_row([
            safe::line(ls::name_of(session)).into_owned(),
            times::shown(&session.updated_at),
            output::bytes(session.bytes),
            why.to_owned(),
        ]);
    }
    out.table(&table)
}
