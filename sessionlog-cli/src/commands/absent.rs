//! Commands that this build does not have.

use clap::Args;

use crate::failure::{Failure, Outcome, Result};

/// A command that is not there. It takes any arguments, so that its user is told what is missing
/// and not which argument is wrong.
#[derive(Args, Debug)]
pub(crate) struct Absent {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<String>,
}

/// Says how to get the command `name`.
///
/// # Errors
/// Always.
pub(crate) fn refuse(name: &str) -> Result<Outcome> {
    let what = format!("this `sessionlog` was built without `{name}`");
    let hint = "`cargo install sessionlog-cli --all-features` builds one with all commands";
    Err(Failure::new(what).hint(hint))
}
