//! The store itself.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sessionlog::{Durability, Message, Reply, Store, StoreHandle, StoreOptions};
use tokio::runtime::Handle;

use crate::contender::{Contender, Setup, Texts, alias_of, key_of};
use crate::support::Outcome;
use crate::support::bare::Until;

/// Session files kept open: as many as the workloads have sessions.
const OPEN_FILES: usize = 16_384;

/// Commands under way at once where many sessions are changed.
const AT_ONCE: usize = 1024;

/// Messages that one command of a filling appends.
const FILLED_AT_ONCE: usize = 1000;

pub(crate) struct SessionLog {
    store: Store,
    handle: StoreHandle,
    keys: Vec<String>,
    texts: Arc<Texts>,
    runtime: Handle,
}

impl Contender for SessionLog {
    fn open(setup: &Setup) -> Outcome<Self> {
        let durability = match setup.until {
            Until::Synced => Durability::Durable,
            Until::Written => Durability::Buffered,
        };
        let options = StoreOptions::new()
            .durability(durability)
            .sync_in_poll(true)
            .max_open_files(OPEN_FILES);
        let store = Store::open_with(setup.dir(), options)?;
        Ok(Self {
            handle: store.handle(),
            store,
            keys: (0..setup.sessions).map(key_of).collect(),
            texts: Arc::clone(&setup.texts),
            runtime: setup.runtime.clone(),
        })
    }

    async fn append(&self, session: usize, text: usize) {
        self.handle
            .add_message(&self.keys[session], "user", &self.texts.texts[text])
            .await
            .expect("the append is acknowledged");
    }

    fn commits(&self) -> usize {
        self.handle.stats().commits as usize
    }

    fn flush(&self) -> Outcome<()> {
        Ok(self.handle.flush().wait()?)
    }

    fn close(self) -> Outcome<()> {
        Ok(self.store.close()?)
    }

    fn count(&self) -> Outcome<usize> {
        let live = |key: &String| {
            let meta = self.handle.session_meta(key).wait()?;
            Ok(usize::try_from(meta.count - meta.skip)?)
        };
        self.keys()?.iter().map(live).sum()
    }

    fn fill(&self, sessions: Range<usize>, messages: usize) -> Outcome<()> {
        let message = |number: usize| {
            let text = number % self.texts.count();
            Message::user(self.texts.texts[text].clone())
        };
        for first in (0..messages).step_by(FILLED_AT_ONCE) {
            let some = first..messages.min(first + FILLED_AT_ONCE);
            self.for_each(sessions.clone(), |session| {
                let messages = some.clone().map(|number| message(session + number));
                self.handle
                    .append_all(&self.keys[session], messages.collect())
            })?;
        }
        self.flush()
    }

    fn alias(&self, sessions: Range<usize>) -> Outcome<()> {
        self.for_each(sessions, |session| {
            let aliases = vec![alias_of(session)];
            self.handle
                .upsert_session_meta(&self.keys[session], None, aliases)
        })?;
        self.flush()
    }

    fn history(&self, session: usize) -> Outcome<Vec<Message>> {
        Ok(self.handle.history(&self.keys[session]).wait()?)
    }

    fn tail(&self, session: usize, count: usize) -> Outcome<Vec<Message>> {
        Ok(self.handle.tail(&self.keys[session], count).wait()?)
    }

    async fn tail_async(&self, session: usize, count: usize) -> Outcome<Vec<Message>> {
        Ok(self.handle.tail(&self.keys[session], count).await?)
    }

    fn keys(&self) -> Outcome<Vec<String>> {
        Ok(self.handle.list_sessions().wait()?)
    }

    fn resolve(&self, alias: &str) -> Outcome<Option<String>> {
        Ok(self.handle.resolve_session_key(alias).wait()?)
    }

    fn truncate(&self, sessions: Range<usize>, keep: usize) -> Outcome<()> {
        self.for_each(sessions, |session| {
            self.handle.truncate_history(&self.keys[session], keep)
        })
    }

    fn reclaim(&self, sessions: Range<usize>) -> Outcome<()> {
        self.for_each(sessions, |session| self.handle.compact(&self.keys[session]))
    }
}

impl SessionLog {
    /// Carries out a command of every session, many at once.
    fn for_each(
        &self,
        sessions: Range<usize>,
        command: impl Fn(usize) -> Reply<()>,
    ) -> Outcome<()> {
        for first in sessions.clone().step_by(AT_ONCE) {
            let some = first..sessions.end.min(first + AT_ONCE);
            self.runtime.block_on(All::of(some.map(&command)))?;
        }
        Ok(())
    }
}

/// Waits for all of them; a reply begins its work when it is first polled.
struct All(Vec<Reply<()>>);

impl All {
    fn of(replies: impl Iterator<Item = Reply<()>>) -> Self {
        Self(replies.collect())
    }
}

impl Future for All {
    type Output = sessionlog::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut failure = Ok(());
        self.0
            .retain_mut(|reply| match Pin::new(reply).poll(context) {
                Poll::Pending => true,
                Poll::Ready(result) => {
                    failure = std::mem::replace(&mut failure, Ok(())).and(result);
                    false
                }
            });
        match (failure, self.0.is_empty()) {
            (Ok(()), false) => Poll::Pending,
            (result, _) => Poll::Ready(result),
        }
    }
}
