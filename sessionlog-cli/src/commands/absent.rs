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

/// Says how to get the command `name`, which comes with `feature`.
///
/// # Errors
/// Always.
pub(crate) fn refuse(name: &str, feature: &str) -> Result<Outcome> {
    let what = format!("this `sessionlog` was built without `{name}`");
    let hint = format!("install it with it: cargo install sessionlog-cli --features {feature}");
    Err(Failure::new(what).hint(hint))
}
