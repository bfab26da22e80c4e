//! The latest value of something, with notification of changes.

#[cfg(sessionlog_loom)]
use super::model::watch;
use super::wake::contained;
#[cfg(not(sessionlog_loom))]
use tokio::sync::watch;

/// Publishes the latest value.
#[derive(Debug)]
pub struct WatchSender<T>(watch::Sender<T>);

/// Receives the latest value. A value that is replaced before anyone looks is never seen.
#[derive(Debug)]
pub struct WatchReceiver<T>(watch::Receiver<T>);

impl<T> Clone for WatchReceiver<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Copy> WatchSender<T> {
    /// A first value, not seen by any receiver.
    #[must_use]
    pub fn new(first: T) -> Self {
        Self(watch::Sender::new(first))
    }

    /// A receiver that has seen the present value.
    #[must_use]
    pub fn subscribe(&self) -> WatchReceiver<T> {
        WatchReceiver(self.0.subscribe())
    }

    /// Replaces the value.
    pub fn send(&self, next: T) {
        self.0.send_replace(next);
    }

    /// True if no receiver is left.
    #[must_use]
    pub fn is_unheard(&self) -> bool {
        self.0.receiver_count() == 0
    }
}

impl<T: Copy> WatchReceiver<T> {
    /// Returns the latest value, which counts as seen from now on.
    pub fn latest(&mut self) -> T {
        *self.0.borrow_and_update()
    }

    /// Waits for a value that was not seen yet; `None` once no more will come.
    pub async fn changed(&mut self) -> Option<T> {
        contained(self.0.changed()).await.ok()?;
        Some(self.latest())
    }
}

#[cfg(test)]
mod tests {
    use super::WatchSender;

    #[test]
    fn the_latest_value_wins_and_the_end_is_told() {
        let sender = WatchSender::new(0);
        let mut receiver = sender.subscribe();
        assert_eq!(receiver.latest(), 0);
        sender.send(1);
        sender.send(2);
        assert_eq!(pollster::block_on(receiver.changed()), Some(2));
        assert!(!sender.is_unheard());
        drop(sender);
        assert_eq!(pollster::block_on(receiver.changed()), None);
    }
}
