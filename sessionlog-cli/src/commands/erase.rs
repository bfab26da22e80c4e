//! `sessionlog erase`: a person, a chat or a session is forgotten.

use std::io::{self, BufRead, IsTerminal};

use clap::Args;
use sessionlog::{EraseReceipt, SessionInfo, SessionQuery, StoreHandle, Whose};

use crate::commands::ls;
use crate::failure::{Failure, Outcome, Result};
use crate::names::Names;
use crate::output::{self, BAD, DIM, GOOD, Output};
use crate::store::{Dir, Writing};
use crate::{progress, resolve, safe};

/// Erase a person's conversations, a chat's, or a session
///
/// Shows what is meant and asks. Then the sessions go, with their backups, archives, aliases,
/// what was set aside of them and the journal that spoke of them, and every file in DIR is
/// read to see whether the keys are still spoken of: the receipt says so. Copies elsewhere
/// (`backup`) and forks are not touched. DIR must not be in use by another process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog erase DIR --person 123456 --channel telegram
  sessionlog erase DIR --person alice               a linked name: on all channels
  sessionlog erase DIR --chat -1001234567890 --yes
  sessionlog erase DIR --session telegram:123456 --json > receipt.json

Exits with 0 if it is sure that nothing speaks of them any more, 1 if there was nothing to \
erase or something is left to be looked at, 2 if no session has the key.")]
pub(crate) struct Erase {
    #[command(flatten)]
    dir: Dir,
    #[command(flatten)]
    whom: Whom,
    /// Only on this channel, such as telegram
    #[arg(long, value_name = "CHANNEL", conflicts_with = "session")]
    channel: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// The receipt as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    writing: Writing,
}

/// Who is forgotten.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
struct Whom {
    /// All conversations with a person, by the id on the platform or the linked name
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    person: Option<String>,
    /// All conversations in a chat, by its id on the platform
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    chat: Option<String>,
    /// A session, by its whole key or alias
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
}

impl Erase {
    pub(crate) fn run(self) -> Result<Outcome> {
        // Opened first: the sessions shown must be the sessions erased.
        let store = self.dir.write(self.writing)?;
        let chats = store.handle();
        let meant = self.meant(&chats)?;
        if !self.confirmed(&meant)? {
            store.close()?;
            output::note("nothing was erased");
            return Ok(Outcome::Nothing);
        }
        let erase = || chats.erase(self.what(&meant)).wait();
        let receipt = progress::while_reading(self.dir.path(), "erasing", erase)?;
        store.close()?;
        let is_any = !meant.is_empty() || receipt.removed.iter().any(|file| !is_journal(file));
        let sessions = meant.iter();
        let names = Names::of(sessions.map(|one| (one.key.as_str(), one.aliases.as_slice())));
        self.tell(&receipt, &names)?;
        if !is_any {
            output::note("no such conversation was found: nothing was there to be erased");
        }
        if !receipt.doubtful.is_empty() {
            output::note("if such a file is theirs: sessionlog erase DIR --session KEY");
        }
        output::note("copies elsewhere, forks and exports are as they were");
        Ok(Outcome::found(is_any && receipt.is_complete()))
    }

    /// Returns the sessions that are meant themselves; sessions that their aliases lead to are
    /// erased with them.
    fn meant(&self, chats: &StoreHandle) -> Result<Vec<SessionInfo>> {
        let all = SessionQuery::new().limit(usize::MAX);
        let query = match (&self.whom.person, &self.whom.chat, &self.whom.session) {
            (Some(person), _, _) => all.person(self.whose(person)),
            (_, Some(chat), _) => all.chat(self.whose(chat)),
            (_, _, Some(name)) => {
                // The beginning of a key is not enough to erase it.
                let living = chats.resolve_session_key(name).wait()?;
                let deleted = resolve::in_trash(chats, &[name, living.as_deref().unwrap_or(name)])?;
                let Some(key) = living else {
                    if !deleted.is_empty() {
                        return Ok(deleted);
                    }
                    // If none or several may be meant, the error lists the candidates.
                    let near = resolve::session(&chats.exact_keys(), name)?;
                    let what = format!("there is no session {name}");
                    let hint = format!("a whole key or alias is needed; is {near} meant?");
                    return Err(Failure::new(what).hint(hint));
                };
                let page = chats.sessions(all.prefix(&key)).wait()?;
                let mut sessions = page.sessions;
                sessions.retain(|session| session.key == key);
                sessions.extend(deleted);
                return Ok(sessions);
            }
            (None, None, None) => return Err(Failure::new("nobody is named")),
        };
        let mut sessions = chats.sessions(query.clone()).wait()?.sessions;
        sessions.extend(chats.sessions(query.deleted()).wait()?.sessions);
        Ok(sessions)
    }

    fn whose(&self, id: &str) -> Whose {
        match &self.channel {
            Some(channel) => Whose::new(id).on(channel),
            None => Whose::new(id),
        }
    }

    fn what(&self, meant: &[SessionInfo]) -> sessionlog::Erase {
        match (&self.whom.person, &self.whom.chat, &self.whom.session) {
            (Some(person), _, _) => sessionlog::Erase::person(self.whose(person)),
            (_, Some(chat), _) => sessionlog::Erase::chat(self.whose(chat)),
            (_, _, session) => {
                let named = session.clone().unwrap_or_default();
                let living = meant.iter().find(|session| session.deleted.is_none());
                let key = living.map(|session| session.key.clone());
                sessionlog::Erase::key(key.unwrap_or(named))
            }
        }
    }

    fn confirmed(&self, meant: &[SessionInfo]) -> Result<bool> {
        if self.yes {
            return Ok(true);
        }
        let mut out = Output::new();
        for session in meant.iter().filter(|_| !self.json) {
            // Cut short, one key could pass for another.
            let key = safe::line(ls::name_of(session));
            let title = out.paint(DIM, &safe::short(ls::title_of(session), 40));
            out.line(&format!("{key}  {title}"))?;
        }
        out.finish()?;
        if !io::stdin().is_terminal() {
            return Err(
                Failure::new("erasing needs a yes, and there is no terminal to ask on")
                    .hint("add --yes"),
            );
        }
        let sessions = output::count(meant.len(), "session");
        anstream::eprint!(
            "Erase {sessions} and all that is left of them? It cannot be undone. [y/N] "
        );
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    fn tell(&self, receipt: &EraseReceipt, names: &Names) -> Result<()> {
        let mut out = Output::new();
        if self.json {
            out.json(receipt)?;
            return out.finish();
        }
        for key in &receipt.sessions {
            out.line(&format!("erased {}", names.name(key)))?;
        }
        for file in receipt.removed.iter().filter(|file| !is_journal(file)) {
            out.line(&format!("removed {}", safe::line(file)))?;
        }
        let mut bad = |what: String| {
            let what = out.paint(BAD, &names.line(&what));
            out.line(&what)
        };
        for (file, text) in &receipt.traces.found {
            bad(format!("{file} still speaks of {text}"))?;
        }
        for file in &receipt.traces.unread {
            bad(format!("{file} could not be read"))?;
        }
        for key in &receipt.unreadable {
            bad(format!(
                "the sidecar of {key} cannot be read: it may be meant, too"
            ))?;
        }
        for file in &receipt.doubtful {
            bad(format!("of {file} it cannot be told whose it is"))?;
        }
        let read = format!(
            "{} read, {}",
            output::count(receipt.traces.files, "file"),
            output::bytes(receipt.traces.bytes)
        );
        let verdict = if receipt.is_complete() {
            out.paint(GOOD, "nothing speaks of them any more")
        } else {
            out.paint(BAD, "something is left to be looked at")
        };
        out.line(&format!("{verdict}: {read}"))?;
        out.finish()
    }
}

/// Returns true for the journal's files, which are replaced whatever their content.
fn is_journal(file: &str) -> bool {
    file.starts_with(".sessionlog/journal/")
}
