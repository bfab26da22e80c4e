//! Rate limit for repeated log messages.

use std::time::Duration;

use super::sync::Mutex;

/// The shortest time between two messages.
const PAUSE: Duration = Duration::from_secs(10);

/// Holds back repeated messages: a log that gets a line for every refused command helps to fill the
/// disk that refuses them.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<Option<Duration>>);

impl Seldom {
    /// True if the message may be logged at this moment, `now` by the clock.
    pub fn is_due(&self, now: Duration) -> bool {
        let mut said = self.0.lock();
        let due = said.is_none_or(|said| now.saturating_sub(said) >= PAUSE);
        if due {
            *said = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_at_once_is_not_said_again_before_the_pause_is_over() {
        let seldom = Seldom::default();
        let said = |millis| seldom.is_due(Duration::from_millis(millis));
        assert_eq!(
            [0, 1, 9_999, 10_000, 10_001, 20_000].map(said),
            [true, false, false, true, false, true]
        );
    }
}
