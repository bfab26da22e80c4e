//! Copies sessions between a directory and a database, either way:
//!
//! ```console
//! cargo run -p sessionlog-postgres --example sessionlog_pg_copy -- sessions postgres://bot@db/chats
//! cargo run -p sessionlog-postgres --example sessionlog_pg_copy -- postgres://bot@db/chats sessions --follow
//! ```
//!
//! With `--follow` it keeps up with whoever writes until a line is typed: stop the writers
//! first, and switch after it said that all is there.

use std::error::Error;

use clap::Parser;
use sessionlog::Store;
use sessionlog_postgres::copy::{CopyReport, Place, copy, follow};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

#[derive(Parser)]
struct Args {
    /// A directory, or `postgres://…`.
    from: String,
    /// A directory, or `postgres://…`.
    to: String,
    /// Whether to keep up with changes until a line is typed.
    #[arg(long)]
    follow: bool,
    /// The schema in the database.
    #[arg(long, default_value = "sessionlog")]
    schema: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let (from, _keep_from) = place(&args.from, &args.schema)?;
    let (to, _keep_to) = place(&args.to, &args.schema)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = if args.follow {
        let (switch, switched) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            eprintln!("keeping up; stop the writers, then press Enter");
            let _ = std::io::stdin().read_line(&mut String::new());
            let _ = switch.send(());
        });
        runtime.block_on(follow(&from, &to, async {
            let _ = switched.await;
        }))?
    } else {
        runtime.block_on(copy(&from, &to))?
    };
    tell(&report);
    Ok(())
}

fn place(name: &str, schema: &str) -> Result<(Place, Option<Store>), Box<dyn Error>> {
    if name.starts_with("postgres://") || name.starts_with("postgresql://") {
        let store = PostgresStore::open(PostgresOptions::new(name).schema(schema))?;
        return Ok((Place::Database(store), None));
    }
    let store = Store::open(name)?;
    Ok((Place::Directory(store.handle()), Some(store)))
}

fn tell(report: &CopyReport) {
    println!(
        "{} sessions, {} lines, {} written now, with {} message ids and {} backups; sha256 {}",
        report.sessions,
        report.lines,
        report.written,
        report.message_ids,
        report.backups,
        report.hash
    );
    if let Some(gap) = report.gap {
        println!("the copy had everything {gap:?} after the writers had stopped");
    }
    for key in &report.others {
        println!("only in the target: {key}");
    }
    for (key, why) in &report.failed {
        println!("NOT COPIED: {key}: {why}");
    }
    for left in &report.left {
        println!("left behind, {left}");
    }
    println!("versions and positions are the copy's own: what programs noted of them is of no use");
}
