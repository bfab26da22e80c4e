//! Looks a directory of sessions over, and mends it if asked to:
//!
//! ```text
//! doctor DIR [--repair] [--allow-data-loss]
//! ```
//!
//! Ends with 0 where everything is sound, 1 where something is wrong, 2 where
//! it could not be told.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use sessionlog::{RepairOptions, Result, Store};

/// Looks a directory of sessions over, and mends it if asked to.
#[derive(Debug, Parser)]
struct Args {
    /// The store's directory.
    dir: PathBuf,
    /// Mend what can be mended without losing anything.
    #[arg(long)]
    repair: bool,
    /// Go on without what cannot be saved.
    #[arg(long, requires = "repair")]
    allow_data_loss: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("doctor: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether the directory is sound now.
fn run(args: &Args) -> Result<bool> {
    let found = Store::verify(&args.dir)?;
    print!("{found}");
    if !args.repair {
        return Ok(found.is_sound());
    }
    let options = RepairOptions::new().allow_data_loss(args.allow_data_loss);
    let report = Store::repair(&args.dir, options)?;
    print!("\n{report}\nnow ");
    let left = Store::verify(&args.dir)?;
    print!("{left}");
    if !report.needs_data_loss.is_empty() {
        println!("\nto go on without what is lost: --repair --allow-data-loss");
    }
    Ok(left.is_sound())
}
