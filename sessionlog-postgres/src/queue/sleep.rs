//! Lanes that sleep, and the way in which they are roused.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Queue;

/// The sleeping lanes. The lane that went to sleep last is roused first, so that the others'
/// connections rest.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    asleep: Vec<Sleeper>,
    /// Number of lanes that were roused and have not looked yet.
    roused: usize,
}

#[derive(Debug)]
struct Sleeper {
    news: Arc<Notify>,
    has_alarm: bool,
}

impl Sleepers {
    /// Rouses one lane, unless a roused lane is still to look: that lane will tell the next.
    pub(super) fn rouse_one(&mut self) {
        if self.roused == 0 {
            self.rouse();
        }
    }

    pub(super) fn rouse_all(&mut self) {
        while self.rouse() {}
    }

    /// True if a lane looks again by itself when waiting for company has taken too long.
    pub(super) fn has_alarm(&self) -> bool {
        self.asleep.iter().any(|one| one.has_alarm)
    }

    fn rouse(&mut self) -> bool {
        let Some(last) = self.asleep.pop() else {
            return false;
        };
        self.roused += 1;
        last.news.notify_one();
        true
    }

    /// Notes that a lane is awake, if it was roused or not.
    fn wake(&mut self, news: &Arc<Notify>) {
        let place = self
            .asleep
            .iter()
            .position(|one| Arc::ptr_eq(&one.news, news));
        match place {
            Some(place) => drop(self.asleep.remove(place)),
            None => self.roused -= 1,
        }
    }
}

/// A lane that sleeps until this is dropped.
#[derive(Debug)]
pub(super) struct Asleep<'a> {
    queue: &'a Queue,
    news: Arc<Notify>,
    until: Option<Instant>,
}

impl<'a> Asleep<'a> {
    pub(super) fn until(queue: &'a Queue, until: Option<Instant>, sleepers: &mut Sleepers) -> Self {
        let news = Arc::new(Notify::new());
        sleepers.asleep.push(Sleeper {
            news: news.clone(),
            has_alarm: until.is_some(),
        });
        Self { queue, news, until }
    }

    pub(super) async fn await_news(self) {
        let news = self.news.notified();
        match self.until {
            None => news.await,
            Some(until) => drop(tokio::time::timeout_at(until, news).await),
        }
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.queue.lock().sleepers.wake(&self.news);
    }
}
