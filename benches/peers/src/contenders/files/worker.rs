//! One of the threads that write session files.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::Receiver;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Shared;
use crate::support::bare::send_batched;

pub(super) struct Request {
    pub(super) session: usize,
    pub(super) line: Vec<u8>,
    pub(super) reply: oneshot::Sender<()>,
}

pub(super) struct Worker {
    shared: Arc<Shared>,
    requests: Receiver<Request>,
    runtime: Handle,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, requests: Receiver<Request>, runtime: Handle) -> Self {
        Self {
            shared,
            requests,
            runtime,
        }
    }

    /// Lines of one session that wait together share its sync.
    pub(super) fn run(self) {
        while let Ok(first) = self.requests.recv() {
            let mut lines: HashMap<usize, Vec<u8>> = HashMap::new();
            let mut replies = Vec::new();
            for request in std::iter::once(first).chain(self.requests.try_iter()) {
                lines
                    .entry(request.session)
                    .or_default()
                    .extend_from_slice(&request.line);
                replies.push(request.reply);
            }
            self.write(&lines).expect("the files take their lines");
            self.shared
                .under_way
                .fetch_sub(replies.len(), Ordering::Relaxed);
            send_batched(&self.runtime, replies);
        }
    }

    fn write(&self, lines: &HashMap<usize, Vec<u8>>) -> std::io::Result<()> {
        let mut any_is_new = false;
        for (session, lines) in lines {
            any_is_new |= append(&self.shared, *session, lines)?;
        }
        for session in lines.keys() {
            sync(&self.shared, *session)?;
        }
        if any_is_new {
            self.shared.sync_dir()?;
        }
        Ok(())
    }
}

/// Whether that made the file.
pub(super) fn append(shared: &Shared, session: usize, lines: &[u8]) -> std::io::Result<bool> {
    let ((), is_new) = shared.with(session, |file| file.write_all(lines))?;
    Ok(is_new)
}

fn sync(shared: &Shared, session: usize) -> std::io::Result<()> {
    shared.syncs.fetch_add(1, Ordering::Relaxed);
    shared.with(session, |file| file.sync_data())?;
    Ok(())
}

pub(super) fn append_durably(shared: &Shared, session: usize, line: &[u8]) -> std::io::Result<()> {
    let is_new = append(shared, session, line)?;
    sync(shared, session)?;
    if is_new { shared.sync_dir() } else { Ok(()) }
}
