//! A bar while the run lasts, where somebody is watching.

use std::fmt::Write;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// Shown on the standard error if that is a terminal, else not at all.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn start(turns: u64) -> Self {
        let bar = ProgressBar::new(turns);
        let template = "  {bar:32.cyan/dim}  {human_pos} of {human_len} turns  {rate:.dim}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, out: &mut dyn Write| {
                let _ = write!(out, "{:.0}/s", state.per_sec());
            };
            bar.set_style(style.with_key("rate", rate).progress_chars("━━─"));
        }
        Self { bar }
    }

    pub(crate) fn advance(&self) {
        self.bar.inc(1);
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
