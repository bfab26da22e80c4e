//! When a commit waits for company.

use std::time::Duration;

use super::group::Linger;

/// How long those who were answered take to come back: the first of them, and for
/// every KiB of their records the rest. If a sync is quicker, two halves in turn
/// lose less than one whole that waits for itself.
const RETURN: Duration = Duration::from_micros(60);
const RETURN_PER_KIB: Duration = Duration::from_micros(3);

/// The longest wait. A device that stalls once must not hold up the next commit
/// for as long again.
const LONGEST: Duration = Duration::from_millis(2);

/// Commits that go out at once after waiting was in vain: at least, at most.
const PAUSE: (u32, u32) = (4, 256);

/// Decides whether the next commit waits for those the last one answered.
///
/// Callers that wait for their answers fall into two halves, one in the sync
/// under way, one after it. Waiting for the first half, as long as a sync takes at most, brings
/// all of them into one. It pays if they come back sooner than a sync takes;
/// if they do not, the pace learns it and waits ever more rarely.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Commits to let go before waiting is tried again.
    pause: u32,
    /// What `pause` becomes when waiting is in vain again.
    next_pause: u32,
}

impl Pace {
    /// How the next commit waits, after one of `bytes` whose sync took `sync`, and which
    /// found `queued` bytes after it when it began to answer. Not quite all who were
    /// answered are waited for: one of them may have nothing more to say.
    pub(crate) fn linger(&mut self, bytes: usize, queued: usize, sync: Duration) -> Option<Linger> {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        if bytes == 0 || sync < RETURN.saturating_add(RETURN_PER_KIB.saturating_mul(kib)) {
            return None;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        Some(Linger {
            wanted: queued + bytes - bytes / 8,
            timeout: sync.min(LONGEST),
        })
    }

    /// Learns whether those came who were waited for, if anybody was.
    pub(crate) fn learn(&mut self, came: Option<bool>) {
        match came {
            None => {}
            Some(true) => self.next_pause = PAUSE.0,
            Some(false) => {
                self.pause = self.next_pause.max(PAUSE.0);
                self.next_pause = (self.pause * 2).min(PAUSE.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_millis(1);

    fn told(pace: &mut Pace, came: bool) -> bool {
        let lingers = pace.linger(100, 0, SYNC).is_some();
        if lingers {
            pace.learn(Some(came));
        }
        lingers
    }

    #[test]
    fn a_pace_that_waits_in_vain_waits_ever_more_rarely_and_never_not_at_all() {
        let mut pace = Pace::default();
        let waits = |pace: &mut Pace| (0..1_000).filter(|_| told(pace, false)).count();
        let (first, later) = (waits(&mut pace), waits(&mut pace));
        assert!(later < first && later >= 1_000 / (PAUSE.1 as usize + 1));
    }

    #[test]
    fn a_pace_whose_waiting_pays_waits_every_time() {
        let mut pace = Pace::default();
        assert!((0..100).all(|_| told(&mut pace, true)));
    }

    #[test]
    fn a_stalled_sync_is_not_waited_for_as_long_again() {
        let linger = Pace::default().linger(100, 0, SYNC * 10_000).unwrap();
        assert_eq!(linger.timeout, LONGEST);
    }

    #[test]
    fn those_who_queued_before_others_were_answered_are_not_taken_for_these() {
        let linger = Pace::default().linger(800, 50, SYNC).unwrap();
        assert!(linger.wanted > 50 + 800 / 2 && linger.wanted < 50 + 800);
    }

    #[test]
    fn a_sync_quicker_than_callers_come_back_is_not_waited_for() {
        assert!(Pace::default().linger(100, 0, RETURN / 2).is_none());
        assert!(Pace::default().linger(100, 0, RETURN * 2).is_some());
        assert!(Pace::default().linger(100 << 10, 0, RETURN * 2).is_none());
    }
}
