//! What a look at the store shows, and whether it may.

use sessionlog::Message;
use sessionlog::testing::sim::{Sim, read_now, read_only};

use crate::crash::model::{Loss, State, Talk};
use crate::simulation::world::{Seen, Verdict, World};

impl World {
    /// What every session looks like through a handle.
    pub(crate) fn look(&self, sim: &mut Sim) -> Verdict<Seen> {
        let handle = sim.handle().exact_keys();
        let wrap = |e: sessionlog::Error| format!("reading failed: {e}");
        let listed = sim.run(handle.list_sessions()).map_err(wrap)?;
        let mut found = Seen::new();
        for key in &self.keys {
            let history = sim.run(handle.history(key)).map_err(wrap)?;
            let meta = sim.run(handle.session_meta(key)).map_err(wrap)?;
            let state = State {
                listed: listed.iter().any(|listed| listed == key),
                texts: texts_of(&history),
                summary: meta.summary,
                title: meta.tags.title,
                aliases: meta.aliases,
                talk: Talk {
                    tokens: sim.run(handle.context(key).token_count()).map_err(wrap)?,
                    next: sim.run(handle.context(key).n_checkpoints()).map_err(wrap)?,
                    ..Talk::default()
                },
                backups: sim.run(handle.list_backups(key)).map_err(wrap)?.len(),
                ..State::default()
            };
            found.insert(*key, state);
        }
        Ok(found)
    }

    /// What a read-only look shows now and then, which must change nothing.
    pub(crate) fn look_beside(&mut self) -> Verdict<Option<Seen>> {
        let before = self.storage.dump();
        if !self.draw.one_in(3) || !before.keys().any(|path| path.starts_with("sessions/")) {
            return Ok(None);
        }
        let wrap = |e: sessionlog::Error| format!("read-only: {e}");
        let handle = read_only(self.storage.clone()).map_err(wrap)?;
        let handle = handle.exact_keys();
        let listed = read_now(handle.list_sessions()).map_err(wrap)?;
        let mut found = Seen::new();
        for key in &self.keys {
            let meta = read_now(handle.session_meta(key)).map_err(wrap)?;
            let state = State {
                listed: listed.iter().any(|listed| listed == key),
                texts: texts_of(&read_now(handle.history(key)).map_err(wrap)?),
                summary: meta.summary,
                title: meta.tags.title,
                aliases: meta.aliases,
                talk: Talk {
                    tokens: read_now(handle.context(key).token_count()).map_err(wrap)?,
                    next: read_now(handle.context(key).n_checkpoints()).map_err(wrap)?,
                    ..Talk::default()
                },
                backups: read_now(handle.list_backups(key)).map_err(wrap)?.len(),
                ..State::default()
            };
            found.insert(*key, state);
        }
        if self.storage.dump() == before {
            Ok(Some(found))
        } else {
            Err("a read-only look changed the files".to_owned())
        }
    }

    /// Whether every session may look as it was found after a crash. Returns
    /// them with what no look shows.
    pub(crate) fn check(&self, found: &Seen, loss: Loss) -> Verdict<Seen> {
        let mut known = Seen::new();
        for (key, state) in found {
            let possible = self.sessions[key].possible(loss, &self.trouble);
            let Some(same) = possible.iter().find(|possible| *possible == state) else {
                return Err(format!(
                    "session {key} is {state:?}, and could only be one of {possible:?}"
                ));
            };
            known.insert(*key, same.clone());
        }
        Ok(known)
    }

    /// Whether readers were shown what they may see. If calls failed a read may fail,
    /// too, but show nothing that was refused, nor miss what was acknowledged; unless
    /// a sync that failed took back what had been written.
    pub(crate) fn check_reads(&mut self, disturbed: bool) -> Verdict {
        for read in std::mem::take(&mut self.reads) {
            let Some(answer) = read.ticket.answer() else {
                self.reads.push(read);
                continue;
            };
            let shown = match answer {
                Err(_) if disturbed => continue,
                other => other.map_err(|e| format!("{}: a read failed: {e}", read.key))?,
            };
            let session = &self.sessions[read.key];
            if disturbed && (self.trouble.may_revert() || session.takes_over()) {
                continue;
            }
            self.tally.reads_disturbed += u64::from(disturbed);
            let shown = texts_of(&shown);
            let possible = self.sessions[read.key].between(read.answered, &self.trouble);
            self.tally.reads += 1;
            if !possible.iter().any(|state| state.texts == shown) {
                return Err(format!(
                    "{}: a reader saw {shown:?}, and could only see one of {possible:?}",
                    read.key
                ));
            }
        }
        Ok(())
    }
}

fn texts_of(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|m| m.text().to_string()).collect()
}
