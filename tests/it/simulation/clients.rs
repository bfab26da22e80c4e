//! What the clients do: many at once, on many sessions, in an order that the
//! seed decides.

use std::time::Duration;

use sessionlog::testing::sim::Sim;
use sessionlog::{Durability, Fork, Message, StoreHandle};

use crate::crash::model::{Act, State, Talk, Update, edit, take_once};
use crate::simulation::session::{Command, Pending, Session};
use crate::simulation::world::{Read, Verdict, World};

/// Commands that one client submits before it waits for the first of them.
const DEPTH: usize = 3;

/// Commands of a session that may have taken effect or not, each for itself,
/// before clients leave it alone.
const MAX_DOUBTS: usize = 6;

impl World {
    /// One client does something, or time passes.
    pub(crate) fn go_on(&mut self) -> Verdict {
        match self.draw.below(24) {
            0..=11 => self.submit_something(),
            12..=14 => self.read_something(),
            15 => self.start_flush(),
            16 => self.wait(),
            17 => self.pass_time(),
            _ => self.step_some(),
        }
        self.collect()
    }

    fn submit_something(&mut self) {
        let key = self.draw.pick(&self.keys);
        let owed = self.sessions.values().flat_map(|s| &s.commands);
        let owed = owed.filter(|c| c.answer.is_none()).count();
        if owed >= self.clients * DEPTH || self.is_off_limits(key) {
            return;
        }
        if let Some(act) = self.draw_act(key) {
            let level = if self.draw.one_in(3) && !matches!(act, Act::Promote(_) | Act::Fork(_)) {
                Durability::Buffered
            } else {
                Durability::Durable
            };
            self.submit(key, act, level);
        }
    }

    /// A promotion looks at the other session before it takes its place in the
    /// queue of its own: what is submitted beside it has no order to check.
    fn is_off_limits(&self, key: &str) -> bool {
        let promoting = |session: &Session, about: &str| {
            session.commands.iter().any(|c| {
                c.answer.is_none()
                    && matches!(c.act, Act::TakeOver(of, _) | Act::Copy(of, _) if of == about)
            })
        };
        let own = self.sessions[key].commands.last();
        let own = own.is_some_and(|c| {
            c.answer.is_none() && matches!(c.act, Act::TakeOver(..) | Act::Copy(..))
        });
        own || self.sessions[key].doubts() >= MAX_DOUBTS
            || self.sessions.values().any(|s| promoting(s, key))
    }

    fn draw_act(&mut self, key: &'static str) -> Option<Act> {
        let act = match self.draw.below(24) {
            0..=8 => Act::Append(vec![self.text()]),
            9..=10 => {
                let count = 1 + self.draw.below(5);
                Act::Append((0..count).map(|_| self.text()).collect())
            }
            11..=12 => Act::Truncate(self.draw.below(4)),
            13 => Act::Compact,
            14 => {
                let count = self.draw.below(4);
                Act::SetHistory((0..count).map(|_| self.text()).collect())
            }
            16 if self.draw.one_in(2) => Act::SetTitle(self.text()),
            15..=16 => Act::SetSummary(self.text()),
            17 if self.draw.one_in(2) => Act::SetAliases(Vec::new()),
            17 => Act::SetAliases(vec![alias_of(key)]),
            18 => Act::Delete,
            19 => return self.draw_talk(key),
            20..=21 => self.draw_update(),
            22 => self.draw_once(key),
            _ => {
                let alias = self.draw.pick(&self.keys);
                let both = [&self.sessions[key], &self.sessions[alias]];
                if alias == key || self.trouble.met() || !both.iter().all(|s| s.is_quiet()) {
                    return None;
                }
                let (own, other) = (both[0].latest(), both[1].latest());
                if !own.listed && other.listed && !both[1].cut {
                    Act::Fork(alias)
                } else if is_silent(&own) && is_silent(&other) {
                    Act::Promote(alias)
                } else {
                    return None;
                }
            }
        };
        Some(act)
    }

    /// Several changes at once.
    fn draw_update(&mut self) -> Act {
        let mut update = Update::default();
        if self.draw.one_in(2) {
            update.texts = (0..=self.draw.below(3)).map(|_| self.text()).collect();
        }
        if self.draw.one_in(2) {
            update.summary = Some(self.text());
        }
        if self.draw.one_in(2) {
            update.keep = Some(self.draw.below(4));
        }
        if self.draw.one_in(4) {
            update.tokens = Some(i64::from(self.draw.below(1000) as u32));
        }
        Act::Update(update)
    }

    /// A message, or one that was delivered before.
    fn draw_once(&mut self, key: &str) -> Act {
        let known: Vec<_> = self.sessions[key].latest().once.into_iter().collect();
        let id = if known.is_empty() || self.draw.one_in(2) {
            format!("id {}", self.texts)
        } else {
            known[self.draw.below(known.len())].clone()
        };
        Act::Once(id, self.text())
    }

    /// A verb of conversations; those that need something to go back to only
    /// where it is known to be there.
    fn draw_talk(&mut self, key: &str) -> Option<Act> {
        let session = &self.sessions[key];
        let state = session.latest();
        let known = session.is_certain() && !session.cut && !self.trouble.met();
        let (points, kept) = (state.talk.points.len(), state.kept.len());
        match self.draw.below(6) {
            0..=1 => Some(Act::Checkpoint),
            2 => Some(Act::Usage(i64::from(self.draw.below(1000) as u32))),
            // What truncation skips stands in the file, and would be backed up.
            3 if !session.cut => Some(Act::Clear),
            4 if known && points > 0 && i64::try_from(points) == Ok(state.talk.next) => {
                Some(Act::Revert(self.draw.below(points)))
            }
            5 if known && kept > 0 => Some(Act::Restore(1 + self.draw.below(kept) as u64)),
            _ => None,
        }
    }

    pub(crate) fn submit(&mut self, key: &'static str, act: Act, level: Durability) {
        let act = match act {
            Act::Promote(alias) => Act::TakeOver(alias, self.sessions[alias].latest()),
            Act::Fork(from) => Act::Copy(from, self.sessions[from].latest()),
            other => other,
        };
        self.tell(|_| format!("{key}: {act:?} {level:?}"));
        let by_alias = self.may_use_alias(key, &act);
        let Some(sim) = &mut self.sim else { return };
        let handle = sim.handle().with_durability(level);
        let pending = if by_alias {
            self.tally.by_alias += 1;
            submit(sim, &handle, &alias_of(key), &act)
        } else {
            submit(sim, &handle.exact_keys(), key, &act)
        };
        let session = self.sessions.entry(key).or_default();
        session.cut |= matches!(act, Act::Truncate(_) | Act::TakeOver(..))
            || matches!(&act, Act::Update(update) if update.keep.is_some());
        session.commands.push(Command {
            act,
            level,
            pending: Some(pending),
            answer: None,
        });
        self.tally.commands += 1;
    }

    /// Whether the session's alias is known to lead to it.
    fn may_use_alias(&mut self, key: &str, act: &Act) -> bool {
        let literal = matches!(act, Act::SetAliases(_) | Act::TakeOver(..) | Act::Copy(..));
        let session = &self.sessions[key];
        !literal
            && session.is_certain()
            && session.latest().aliases.contains(&alias_of(key))
            && self.draw.one_in(2)
    }

    fn read_something(&mut self) {
        let key = self.draw.pick(&self.keys);
        let answered = self.sessions[key].answered();
        let Some(sim) = &mut self.sim else { return };
        let ticket = sim.submit(sim.handle().exact_keys().history(key));
        self.reads.push(Read {
            key,
            ticket,
            answered,
        });
    }

    fn start_flush(&mut self) {
        self.tell(|_| "flush".to_owned());
        let reached = self.reached();
        if let Some(sim) = &mut self.sim {
            self.flushes.push((sim.submit_flush(), reached));
        }
    }

    pub(crate) fn pass_time(&mut self) {
        let time = Duration::from_millis(self.draw.pick(&[20, 100, 400, 1200]));
        self.tell(|_| format!("{time:?} pass"));
        let reached = self.reached();
        let Some(sim) = &mut self.sim else { return };
        sim.pause(time);
        if !self.is_disturbed() {
            // Buffered records do not linger for longer than that.
            self.keep(&reached);
        }
    }

    fn step_some(&mut self) {
        let steps = 1 + self.draw.below(30);
        let Some(sim) = &mut self.sim else { return };
        for _ in 0..steps {
            if !sim.step() {
                break;
            }
        }
    }

    /// A text nobody wrote before: one that is back shows.
    pub(crate) fn text(&mut self) -> String {
        self.texts += 1;
        let long = match self.draw.below(12) {
            0 => 600,
            1 => 3000,
            2 => 6000,
            _ => 0,
        };
        format!("text {}{}", self.texts, "·".repeat(long / 2))
    }
}

fn submit(sim: &mut Sim, handle: &StoreHandle, key: &str, act: &Act) -> Pending {
    let messages = |texts: &[String]| texts.iter().map(Message::user).collect();
    let reply = match act {
        Act::Append(texts) => match &texts[..] {
            [text] => handle.add_message(key, "user", text),
            texts => handle.append_all(key, messages(texts)),
        },
        Act::Truncate(keep) => handle.truncate_history(key, *keep),
        Act::Update(update) => update.submit(handle, key),
        Act::Once(id, text) => take_once(handle, key, id, text),
        Act::Compact => handle.compact(key),
        Act::SetHistory(texts) => handle.set_history(key, messages(texts)),
        Act::SetSummary(summary) => handle.set_summary(key, summary),
        Act::SetTitle(title) => handle.set_title(key, title),
        Act::Edit(newer, text) => edit(handle, key, *newer, text.as_ref()),
        Act::SetAliases(aliases) => handle.upsert_session_meta(key, None, aliases.clone()),
        Act::Delete => handle.delete_session(key),
        Act::Checkpoint => {
            let reply = handle.context(key).checkpoint(false);
            return Pending::Checkpoint(sim.submit(reply));
        }
        Act::Usage(tokens) => handle.context(key).update_token_count(*tokens),
        Act::Revert(id) => handle
            .context(key)
            .revert_to(i64::try_from(*id).expect("lives are short")),
        Act::Clear => handle.context(key).clear(),
        Act::Restore(number) => handle.restore_backup(key, *number),
        Act::Fork(from) | Act::Copy(from, _) => handle.fork_session(from, key, Fork::End),
        Act::Move(_) | Act::Become(..) | Act::Leave => unreachable!("the clients rename nothing"),
        Act::Promote(alias) | Act::TakeOver(alias, _) => {
            let aliases = vec![(*alias).to_owned()];
            let reply = handle.promote_alias_history(key, None, aliases);
            return Pending::Promotion(sim.submit(reply));
        }
    };
    Pending::Plain(sim.submit(reply))
}

fn alias_of(key: &str) -> String {
    format!("alias-of-{key}")
}

/// Whether a session holds nothing but messages, which is all that the model
/// says of what another takes over.
fn is_silent(state: &State) -> bool {
    let Talk { tokens, next, .. } = state.talk;
    (tokens, next) == (0, 0)
}
