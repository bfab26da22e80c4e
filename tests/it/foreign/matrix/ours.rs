//! What our store did last, and what it knows to be so.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::value::RawValue;
use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::sim::{Sim, Ticket};
use sessionlog::{Durability, Message, StoreHandle};

use super::opened;

/// The session of every case.
pub(super) const KEY: &str = "a";

/// Another session, which the session of every case may inherit.
pub(super) const ELDER: &str = "telegram:elder";

/// Where the session belongs, as we say it.
const SCOPE: &str = r#"{"chat":"ours"}"#;

/// One thing that our store does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Add(&'static [&'static str]),
    Buffered(&'static str),
    Truncate(usize),
    Compact,
    Set(&'static [&'static str]),
    Summary(&'static str),
    /// Names for the session, and where it belongs.
    Named,
    /// The same, with what another session has: it leads here then.
    Inherit,
    /// A message of that other session.
    Elder,
    Checkpoint,
    Revert,
    Clear,
    Restore,
    Delete,
    Flush,
    Pause(u64),
}

/// What was done before the crash. From `last` on, it may come.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) name: &'static str,
    base: Vec<Op>,
    last: Vec<Op>,
    /// Whether the session had no line at the last checkpoint: a file of it that is
    /// missing may not have been there.
    fresh: bool,
}

impl Script {
    /// Whether a file that is missing may be missing because of us.
    pub(super) fn may_lack_files(&self) -> bool {
        self.fresh || self.last.iter().any(|op| matches!(op, Op::Delete))
    }
}

/// What of the session's texts our store knows after a crash.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Acknowledged, and not taken away again.
    pub(super) must: BTreeSet<String>,
    /// Of these, what no checkpoint covers.
    pub(super) journalled: BTreeSet<String>,
    /// All that was ever written, and what was shown after each act.
    pub(super) ever: BTreeSet<String>,
    pub(super) shown: Vec<BTreeSet<String>>,
    /// Taken away, and that acknowledged.
    pub(super) gone: BTreeSet<String>,
    /// What the sidecar says beyond lines, as far as it is certain.
    pub(super) fields: Fields,
    /// All that sidecars may have said since the session began.
    pub(super) said: Vec<Fields>,
}

/// What a sidecar says beyond lines: a field is `None` if either of two things may stand
/// there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fields {
    pub(super) summary: Option<String>,
    pub(super) scope: Option<String>,
    pub(super) aliases: Option<Vec<String>>,
}

impl Fields {
    /// Those of a session that nobody said anything of.
    fn empty() -> Self {
        Self {
            summary: Some(String::new()),
            scope: Some(String::new()),
            aliases: Some(Vec::new()),
        }
    }

    /// What holds whichever of the two does.
    fn either(self, other: &Self) -> Self {
        Self {
            summary: self.summary.filter(|it| other.summary.as_ref() == Some(it)),
            scope: self.scope.filter(|it| other.scope.as_ref() == Some(it)),
            aliases: self.aliases.filter(|it| other.aliases.as_ref() == Some(it)),
        }
    }
}

#[expect(clippy::too_many_lines, reason = "a list")]
pub(super) fn scripts() -> Vec<Script> {
    use Op::*;
    let flushed = vec![Add(&["one", "two", "three"]), Summary("before"), Flush];
    let equal = vec![Add(&["aa", "bb"]), Flush];
    let hidden = vec![Add(&["one", "two", "three", "four"]), Truncate(2), Flush];
    let talk = vec![Add(&["one"]), Checkpoint, Add(&["two", "three"]), Flush];
    let backup = vec![Add(&["one", "two"]), Clear, Add(&["three"]), Flush];
    let plain = vec![Add(&["one", "two"]), Flush];
    let emptied = vec![Add(&["one"]), Set(&[]), Flush];
    let elder = vec![Elder, Flush];
    let script = |name, base: &Vec<Op>, last: Vec<Op>| Script {
        name,
        base: base.clone(),
        last,
        fresh: !base.iter().any(|op| matches!(op, Add(_))) || matches!(base[..], [.., Set([]), _]),
    };
    vec![
        script(
            "add",
            &flushed,
            vec![Add(&["four"]), Pause(50), Add(&["five", "six"])],
        ),
        script("equal", &equal, vec![Add(&["cc"]), Pause(50), Add(&["dd"])]),
        script(
            "buffered",
            &flushed,
            vec![Buffered("four"), Buffered("five"), Pause(50)],
        ),
        script(
            "fresh",
            &vec![],
            vec![Add(&["one", "two"]), Pause(50), Add(&["three"])],
        ),
        script(
            "summary",
            &flushed,
            vec![Summary("after"), Pause(1000), Add(&["four"])],
        ),
        script(
            "aliases",
            &flushed,
            vec![Named, Add(&["four"]), Pause(1000)],
        ),
        script(
            "named_first",
            &vec![],
            vec![Named, Add(&["one"]), Pause(50), Add(&["two"])],
        ),
        script(
            "summary_first",
            &vec![],
            vec![Summary("ours"), Add(&["one"]), Pause(1000), Named],
        ),
        script(
            "inherit_first",
            &elder,
            vec![Inherit, Add(&["one"]), Pause(1000)],
        ),
        script(
            "begun_truncated",
            &vec![],
            vec![Add(&["one"]), Truncate(0), Add(&["two"]), Pause(1000)],
        ),
        script("emptied", &emptied, vec![Add(&["two"]), Pause(50)]),
        script(
            "set_begun",
            &vec![],
            vec![Set(&["one"]), Add(&["two"]), Pause(50), Add(&["three"])],
        ),
        script(
            "add_truncate",
            &plain,
            vec![Add(&["three"]), Truncate(1), Add(&["four"]), Pause(50)],
        ),
        script("summary_last", &plain, vec![Summary("ours"), Pause(1000)]),
        script(
            "truncate",
            &flushed,
            vec![Truncate(1), Pause(1000), Add(&["four"])],
        ),
        script("compact", &hidden, vec![Compact, Pause(50), Add(&["five"])]),
        script(
            "both",
            &flushed,
            vec![Truncate(1), Compact, Add(&["four"]), Truncate(1)],
        ),
        script(
            "set",
            &flushed,
            vec![Set(&["new", "newer"]), Add(&["four"]), Pause(50)],
        ),
        script(
            "set_hidden",
            &hidden,
            vec![Set(&["new"]), Pause(1000), Truncate(0)],
        ),
        script("set_none", &flushed, vec![Set(&[]), Add(&["four"])]),
        script("clear", &flushed, vec![Clear, Pause(50), Add(&["four"])]),
        script(
            "revert",
            &talk,
            vec![Add(&["four"]), Revert, Add(&["five"]), Pause(50)],
        ),
        script(
            "restore",
            &backup,
            vec![Add(&["four"]), Restore, Add(&["five"])],
        ),
        script("delete", &flushed, vec![Add(&["four"]), Delete, Pause(50)]),
        script(
            "delete_add",
            &flushed,
            vec![Delete, Add(&["four"]), Pause(50), Add(&["five"])],
        ),
    ]
}

/// The calls of the last acts: the first, and the one after all.
pub(super) fn span(script: &Script) -> (u64, u64) {
    let storage = MemoryStorage::new();
    let mut play = Play::new(&storage);
    play.all(&script.base);
    let first = storage.steps();
    play.all(&script.last);
    (first, storage.steps())
}

/// A disk whose power was cut before that call.
pub(super) fn crashed(script: &Script, step: u64) -> (MemoryStorage, Known) {
    let storage = MemoryStorage::new();
    storage.crash_at(step);
    let mut play = Play::new(&storage);
    play.all(&script.base);
    play.all(&script.last);
    (storage, play.known())
}

/// A store at work.
struct Play {
    sim: Sim,
    /// The texts that are shown after what was acknowledged.
    now: Vec<String>,
    /// And after what was in flight, if anything was.
    next: Option<Vec<String>>,
    ever: BTreeSet<String>,
    shown: Vec<BTreeSet<String>>,
    /// What a power loss may take: it was answered as buffered.
    loose: BTreeSet<String>,
    /// Acknowledged since the last checkpoint.
    since: BTreeSet<String>,
    marked: usize,
    backup: Vec<String>,
    fields: Fields,
    said: Vec<Fields>,
}

impl Play {
    fn new(storage: &MemoryStorage) -> Self {
        Self {
            sim: opened(storage).expect("an empty disk opens"),
            now: Vec::new(),
            next: None,
            ever: BTreeSet::new(),
            shown: Vec::new(),
            loose: BTreeSet::new(),
            since: BTreeSet::new(),
            marked: 0,
            backup: Vec::new(),
            fields: Fields::empty(),
            said: vec![Fields::empty()],
        }
    }

    fn all(&mut self, ops: &[Op]) {
        for op in ops {
            if self.next.is_some() {
                return;
            }
            let after = self.after(*op);
            self.ever.extend(after.iter().cloned());
            self.shown.push(after.iter().cloned().collect());
            let answered = self.acknowledged(*op);
            match op {
                Op::Add(texts) | Op::Set(texts) => {
                    self.since
                        .extend(texts.iter().map(|text| (*text).to_owned()));
                }
                // A store that is idle for 300 ms makes a checkpoint.
                Op::Flush | Op::Pause(300..) => self.since.clear(),
                Op::Buffered(text) => drop(self.loose.insert((*text).to_owned())),
                _ => {}
            }
            let fields = self.fields_after(*op);
            self.said.push(fields.clone());
            self.fields = if answered {
                fields
            } else {
                fields.either(&self.fields)
            };
            if answered {
                self.now = after;
            } else {
                self.next = Some(after);
            }
        }
    }

    /// What is shown once `op` has taken effect.
    fn after(&mut self, op: Op) -> Vec<String> {
        let mut now = self.now.clone();
        match op {
            Op::Add(texts) => now.extend(texts.iter().map(|text| (*text).to_owned())),
            Op::Buffered(text) => now.push(text.to_owned()),
            Op::Truncate(keep) => drop(now.drain(..now.len().saturating_sub(keep))),
            Op::Set(texts) => now = texts.iter().map(|text| (*text).to_owned()).collect(),
            Op::Checkpoint => self.marked = now.len(),
            Op::Revert => now.truncate(self.marked),
            Op::Clear => self.backup = std::mem::take(&mut now),
            Op::Restore => now.clone_from(&self.backup),
            Op::Delete => now.clear(),
            Op::Inherit if now.is_empty() => now.push(ELDER.to_owned()),
            Op::Compact
            | Op::Summary(_)
            | Op::Named
            | Op::Inherit
            | Op::Elder
            | Op::Flush
            | Op::Pause(_) => {}
        }
        now
    }

    /// What the sidecar says once `op` has taken effect.
    fn fields_after(&self, op: Op) -> Fields {
        let mut fields = self.fields.clone();
        match op {
            Op::Summary(text) => fields.summary = Some(text.to_owned()),
            Op::Named | Op::Inherit => {
                fields.scope = Some(SCOPE.to_owned());
                fields.aliases = Some(names(op));
            }
            // A power loss may leave the session that was deleted, and they act on that.
            Op::Clear | Op::Revert | Op::Restore | Op::Delete => fields = Fields::default(),
            _ => {}
        }
        fields
    }

    fn acknowledged(&mut self, op: Op) -> bool {
        let ours = self.sim.handle().exact_keys();
        if let Op::Pause(millis) = op {
            self.sim.pause(Duration::from_millis(millis));
            return true;
        }
        if let Op::Flush = op {
            return self.sim.flush().is_ok();
        }
        if let Op::Checkpoint = op {
            let ticket = self.sim.submit(ours.context(KEY).checkpoint(false));
            return is_ok(&mut self.sim, &ticket);
        }
        if let Op::Inherit = op {
            let ticket =
                self.sim
                    .submit(ours.ensure_session_metadata(KEY, Some(scope()), names(op)));
            return is_ok(&mut self.sim, &ticket);
        }
        let ticket = submit(&mut self.sim, &ours, op);
        is_ok(&mut self.sim, &ticket)
    }

    fn known(self) -> Known {
        let next = self.next.as_ref().unwrap_or(&self.now);
        let now: BTreeSet<String> = self.now.iter().cloned().collect();
        let next: BTreeSet<String> = next.iter().cloned().collect();
        let shown: BTreeSet<String> = now.union(&next).cloned().collect();
        let mut must: BTreeSet<String> = now.intersection(&next).cloned().collect();
        let mut gone: BTreeSet<String> = self.ever.difference(&shown).cloned().collect();
        must.retain(|text| !self.loose.contains(text));
        gone.retain(|text| !self.loose.contains(text));
        Known {
            journalled: must.intersection(&self.since).cloned().collect(),
            must,
            gone,
            ever: self.ever,
            shown: self.shown,
            fields: self.fields,
            said: self.said,
        }
    }
}

fn is_ok<T: Clone>(sim: &mut Sim, ticket: &Ticket<T>) -> bool {
    matches!(sim.until_answered(ticket), Some(Ok(_)))
}

fn submit(sim: &mut Sim, ours: &StoreHandle, op: Op) -> Ticket<()> {
    let messages = |texts: &[&str]| texts.iter().map(|text| Message::user(*text)).collect();
    let reply = match op {
        Op::Add(texts) => ours.append_all(KEY, messages(texts)),
        Op::Buffered(text) => {
            let buffered = ours.with_durability(Durability::Buffered);
            buffered.add_message(KEY, "user", text)
        }
        Op::Truncate(keep) => ours.truncate_history(KEY, keep),
        Op::Compact => ours.compact(KEY),
        Op::Set(texts) => ours.set_history(KEY, messages(texts)),
        Op::Summary(text) => ours.set_summary(KEY, text),
        Op::Named => ours.upsert_session_meta(KEY, Some(scope()), names(op)),
        Op::Elder => ours.add_message(ELDER, "user", ELDER),
        Op::Revert => ours.context(KEY).revert_to(0),
        Op::Clear => ours.context(KEY).clear(),
        Op::Restore => ours.restore_backup(KEY, 1),
        Op::Delete => ours.delete_session(KEY),
        Op::Checkpoint | Op::Inherit | Op::Flush | Op::Pause(_) => {
            unreachable!("done elsewhere")
        }
    };
    sim.submit(reply)
}

/// What else the session is called.
fn names(op: Op) -> Vec<String> {
    let inherits = matches!(op, Op::Inherit);
    vec![String::from(if inherits { ELDER } else { "alias" })]
}

fn scope() -> Box<RawValue> {
    RawValue::from_string(SCOPE.to_owned()).expect("it is JSON")
}
