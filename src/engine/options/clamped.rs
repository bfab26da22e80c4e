//! Options set out of bounds, and the getters.

use std::fmt;
use std::time::Duration;

use super::{Durability, StoreOptions};

/// An option that was set outside its bounds, and so took the bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Clamped {
    /// The method that sets it.
    pub option: &'static str,
    /// The value given, for people to read.
    pub given: String,
    /// The bound that was used instead.
    pub taken: String,
}

impl fmt::Display for Clamped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            option,
            given,
            taken,
        } = self;
        write!(f, "{option} takes {taken} instead of {given}")
    }
}

/// Reading the options.
impl StoreOptions {
    /// The options that were set outside their bounds, by the last call of each. Opening logs them
    /// as warnings.
    ///
    /// ```
    /// use sessionlog::StoreOptions;
    ///
    /// let options = StoreOptions::new().max_open_files(3);
    /// assert_eq!(options.get_max_open_files(), Some(64));
    /// assert_eq!(
    ///     options.clamped()[0].to_string(),
    ///     "max_open_files takes 64 instead of 3"
    /// );
    /// ```
    #[must_use]
    pub fn clamped(&self) -> &[Clamped] {
        &self.clamped
    }

    /// See [`durability`](Self::durability).
    #[must_use]
    pub fn get_durability(&self) -> Durability {
        self.durability
    }

    /// See [`auto_compact`](Self::auto_compact).
    #[must_use]
    pub fn get_auto_compact(&self) -> bool {
        self.auto_compact
    }

    /// See [`sync_in_poll`](Self::sync_in_poll).
    #[must_use]
    pub fn get_sync_in_poll(&self) -> bool {
        self.sync_in_poll
    }

    /// See [`archive`](Self::archive).
    #[must_use]
    pub fn get_archive(&self) -> bool {
        self.archive
    }

    /// See [`trash`](Self::trash); `None` if there is no trash.
    #[must_use]
    pub fn get_trash(&self) -> Option<Duration> {
        self.trash
    }

    /// See [`max_open_files`](Self::max_open_files); `None` if it depends on the process.
    #[must_use]
    pub fn get_max_open_files(&self) -> Option<usize> {
        self.max_open_files.map(Into::into)
    }

    /// See [`max_line_bytes`](Self::max_line_bytes).
    #[must_use]
    pub fn get_max_line_bytes(&self) -> usize {
        self.max_line_bytes
    }

    /// See [`max_batch_bytes`](Self::max_batch_bytes).
    #[must_use]
    pub fn get_max_batch_bytes(&self) -> usize {
        self.max_batch_bytes
    }

    /// See [`allow_missing_lock`](Self::allow_missing_lock).
    #[must_use]
    pub fn get_allow_missing_lock(&self) -> bool {
        self.allow_missing_lock
    }

    /// See [`allow_other_owner`](Self::allow_other_owner).
    #[must_use]
    pub fn get_allow_other_owner(&self) -> bool {
        self.allow_other_owner
    }

    /// See [`journal_budget`](Self::journal_budget).
    #[must_use]
    pub fn get_journal_budget(&self) -> u64 {
        self.segments.budget
    }

    /// See [`checkpoint_every`](Self::checkpoint_every).
    #[must_use]
    pub fn get_checkpoint_every(&self) -> Duration {
        self.checkpoint_every
    }

    /// See [`once_ids`](Self::once_ids).
    #[must_use]
    pub fn get_once_ids(&self) -> usize {
        self.once_ids
    }

    /// See [`slow_commit`](Self::slow_commit).
    #[must_use]
    pub fn get_slow_commit(&self) -> Duration {
        self.slow_commit
    }

    /// See [`publish_stats`](Self::publish_stats).
    #[must_use]
    pub fn get_publish_stats(&self) -> bool {
        self.publish_stats
    }

    /// See [`open_timeout`](Self::open_timeout).
    #[must_use]
    pub fn get_open_timeout(&self) -> Duration {
        self.open_timeout
    }

    /// Returns `given` within its bounds, and notes it if it was outside.
    pub(super) fn clamp<T: Ord + Copy + fmt::Debug>(
        &mut self,
        option: &'static str,
        given: T,
        least: T,
        most: T,
    ) -> T {
        let taken = given.clamp(least, most);
        self.clamped.retain(|clamped| clamped.option != option);
        if taken != given {
            self.clamped.push(Clamped {
                option,
                given: format!("{given:?}"),
                taken: format!("{taken:?}"),
            });
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_says_whether_an_option_is_out_of_its_bounds() {
        let day = Duration::from_hours(24);
        let options = StoreOptions::new().journal_budget(0).open_timeout(2 * day);
        let told: Vec<_> = options.clamped().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "journal_budget takes 1048576 instead of 0",
                "open_timeout takes 86400s instead of 172800s"
            ]
        );
        let options = options.journal_budget(2 << 20).open_timeout(day);
        assert!(options.clamped().is_empty());
        assert_eq!(options.get_journal_budget(), 2 << 20);
        assert_eq!(options.get_open_timeout(), day);
    }
}
