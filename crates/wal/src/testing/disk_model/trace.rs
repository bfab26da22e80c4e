//! The last calls, for failure messages.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// How many calls are kept.
const KEPT: usize = 512;

/// One call, before it is made.
#[derive(Clone, Debug)]
pub(super) struct DiskCall {
    pub(super) name: &'static str,
    pub(super) path: Arc<str>,
    /// The bytes it is about, empty for most calls.
    pub(super) range: Range<u64>,
}

/// A call that was made.
#[derive(Debug)]
struct Made {
    step: u64,
    call: DiskCall,
    failure: Option<String>,
}

/// The last calls made.
#[derive(Debug, Default)]
pub(super) struct Trace(VecDeque<Made>);

impl Trace {
    pub(super) fn record<T>(&mut self, step: u64, call: DiskCall, result: &io::Result<T>) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        let failure = result.as_ref().err().map(ToString::to_string);
        self.0.push_back(Made {
            step,
            call,
            failure,
        });
    }

    pub(super) fn last(&self, n: usize) -> Vec<String> {
        let skipped = self.0.len().saturating_sub(n);
        self.0.iter().skip(skipped).map(Made::to_string).collect()
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "step {}: {} {}",
            self.step, self.call.name, self.call.path
        )?;
        if !self.call.range.is_empty() {
            write!(f, " {}..{}", self.call.range.start, self.call.range.end)?;
        }
        match &self.failure {
            Some(failure) => write!(f, " failed: {failure}"),
            None => Ok(()),
        }
    }
}
