//! Reports every change of a session.

use std::sync::Arc;

use sessionlog_wal::sync::watch::{WatchReceiver, WatchSender};

use crate::engine::shard::Shard;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;
use crate::engine::snapshot::Standing;

/// Report every change, also if there is no such session yet.
#[derive(Debug)]
pub(crate) struct Subscribe;

impl Verb for Subscribe {
    type Output = WatchReceiver<Standing>;
    const MANNER: Manner = Manner::Subscribes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, key: &Arc<str>, shard: &mut Shard) -> Absent<WatchReceiver<Standing>> {
        Absent::Answer(Ok(shard.subscribe_early(key)))
    }

    fn waits(&self, _: &Session) -> bool {
        false
    }

    fn stage(
        self,
        answer: Answer<WatchReceiver<Standing>>,
        shard: &mut Shard,
        id: usize,
        turn: &mut Turn<'_>,
    ) {
        let watch = shard.session(id).subscribe();
        turn.out.answer(answer, Ok(watch));
    }
}

impl Shard {
    fn subscribe_early(&mut self, key: &Arc<str>) -> WatchReceiver<Standing> {
        // Now and then, drop watchers that gave up on a session that never came: the list stays in
        // proportion to the receivers that listen.
        if self.early.len().is_power_of_two() && !self.early.contains_key(key) {
            self.early.retain(|_, watch| !watch.is_unheard());
        }
        let early = self.early.entry(key.clone());
        let watch = early.or_insert_with(|| WatchSender::new(Standing::default()));
        watch.subscribe()
    }
}

impl Session {
    fn subscribe(&mut self) -> WatchReceiver<Standing> {
        let standing = self.standing();
        let watch = self.watch.get_or_insert_with(|| WatchSender::new(standing));
        watch.subscribe()
    }
}
