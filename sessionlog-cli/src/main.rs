//! `sessionlog`: look into, search, check and look after stores of chat sessions.

mod cli;
mod commands;
mod cost;
mod excerpt;
mod failure;
mod lock;
mod names;
mod output;
mod progress;
mod resolve;
mod safe;
mod select;
mod store;
mod times;
mod transcript;

use std::process::ExitCode;

use clap::Parser;

use self::cli::Cli;
use self::failure::{Failure, Outcome};

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.colour.write_global();
    output::be_quiet(cli.quiet);
    log_to_stderr(cli.verbose);
    match cli.command.run() {
        Ok(Outcome::Done) | Err(Failure::NobodyReads) => ExitCode::SUCCESS,
        Ok(Outcome::Nothing) => ExitCode::from(1),
        Err(Failure::Told { what, hint }) => {
            tell(&what, hint.as_deref());
            ExitCode::from(2)
        }
    }
}

fn tell(what: &str, hint: Option<&str>) {
    let (bad, dim) = (output::BAD, output::DIM);
    anstream::eprintln!("{bad}sessionlog:{bad:#} {}", safe::block(what));
    if let Some(hint) = hint {
        anstream::eprintln!("{dim}{}{dim:#}", safe::block(hint));
    }
}

/// Shows the library's log. Commands report everything important themselves.
fn log_to_stderr(verbose: u8) {
    use tracing_subscriber::filter::LevelFilter;
    let level = match verbose {
        0 => LevelFilter::ERROR,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let colours = anstream::AutoStream::choice(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(colours != anstream::ColorChoice::Never)
        .with_max_level(level)
        .init();
}
