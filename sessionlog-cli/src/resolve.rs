//! Finds the session that a person means.

use sessionlog::scope::is_opaque_session_key;
use sessionlog::{SessionInfo, SessionPage, SessionQuery, StoreHandle};

use crate::failure::{Failure, Result};
use crate::{names, safe};

/// Number of candidates that are listed.
const CANDIDATES: usize = 20;

/// Returns the key of the session that `name` means: its key, one of its aliases, or the beginning
/// of either if no other session has one that begins the same.
///
/// # Errors
/// If there is none, or several; the message lists them.
pub(crate) fn session(chats: &StoreHandle, name: &str) -> Result<String> {
    if let Some(key) = chats.resolve_session_key(name).wait()? {
        return Ok(key);
    }
    if name.trim().is_empty() {
        return Err(Failure::new("the session's key is empty"));
    }
    let mut found = by_key(chats, name)?;
    if found.is_empty() {
        let all = SessionQuery::new().limit(usize::MAX);
        let all = chats.sessions(all).wait()?;
        found = by_name(&all, |own| own.starts_with(name));
        if found.is_empty() {
            return Err(none(chats, name, &all)?);
        }
    }
    match found.len() {
        1 => Ok(found.remove(0).key),
        _ => Err(several(name, &found)),
    }
}

/// A session that may be meant.
struct Candidate {
    key: String,
    /// The text for a person: the key, or if that is a hash the matching alias.
    shown: String,
}

impl Candidate {
    fn of(key: String) -> Self {
        let shown = key.clone();
        Self { key, shown }
    }
}

/// Returns the sessions with keys that begin with `name`.
fn by_key(chats: &StoreHandle, name: &str) -> Result<Vec<Candidate>> {
    let query = SessionQuery::new().prefix(name).limit(CANDIDATES + 1);
    let page = chats.sessions(query).wait()?;
    let unread = page.unreadable.into_iter();
    let mut keys: Vec<String> = unread.filter(|key| key.starts_with(name)).collect();
    keys.extend(page.sessions.into_iter().map(|session| session.key));
    Ok(keys.into_iter().map(Candidate::of).collect())
}

/// Returns the sessions with a key or an alias for which `is_like` is true.
fn by_name(all: &SessionPage, is_like: impl Fn(&str) -> bool) -> Vec<Candidate> {
    let unread = all.unreadable.iter().filter(|key| is_like(key));
    let unread = unread.cloned().map(Candidate::of);
    let read = all.sessions.iter().filter_map(|session| {
        let SessionInfo { key, aliases, .. } = session;
        let mut alike = aliases.iter().filter(|alias| is_like(alias)).peekable();
        if alike.peek().is_none() && !is_like(key) {
            return None;
        }
        // An alias that all sessions of an agent have does not tell them apart.
        let own = alike.find(|alias| is_opaque_session_key(key) && !names::is_main(alias));
        Some(Candidate {
            key: key.clone(),
            shown: own.unwrap_or(key).clone(),
        })
    });
    unread.chain(read).collect()
}

/// Returns the key of the session that `name` means by its whole key or alias: commands that change
/// sessions do not accept the beginning of a key.
///
/// # Errors
/// If there is none; the message suggests one.
pub(crate) fn whole(chats: &StoreHandle, name: &str) -> Result<String> {
    if let Some(key) = chats.resolve_session_key(name).wait()? {
        return Ok(key);
    }
    let near = session(chats, name)?;
    let what = format!("there is no session {}; nothing is changed", quoted(name));
    let hint = format!(
        "a whole key or alias is needed; is {} meant?",
        safe::line(&near)
    );
    Err(Failure::new(what).hint(hint))
}

/// Returns the sessions in the trash that have one of these keys there, had it before, or had it as
/// an alias.
pub(crate) fn in_trash(chats: &StoreHandle, sought: &[&str]) -> Result<Vec<SessionInfo>> {
    let query = SessionQuery::new().deleted().limit(usize::MAX);
    let mut trash = chats.sessions(query).wait()?.sessions;
    trash.retain(|session| {
        let key = session.deleted.as_ref().map(|deletion| &deletion.key);
        let aliases = session
            .aliases
            .iter()
            .filter(|alias| !names::is_main(alias));
        let mut names = aliases.chain(key).chain([&session.key]);
        names.any(|own| sought.contains(&own.as_str()))
    });
    Ok(trash)
}

fn none(chats: &StoreHandle, name: &str, all: &SessionPage) -> Result<Failure> {
    let what = format!("there is no session {}", quoted(name));
    if !in_trash(chats, &[name])?.is_empty() {
        return Ok(Failure::new(what).hint(
            "it is in the trash: `sessionlog undelete DIR KEY` brings it back, `sessionlog ls DIR \
             --deleted` shows its key there",
        ));
    }
    let folded = name.to_lowercase();
    let near = by_name(all, |own| own.to_lowercase().contains(&folded));
    Ok(Failure::new(what).hint(if near.is_empty() {
        String::from("`sessionlog ls DIR` shows all; `sessionlog ls DIR --person ID` a person's")
    } else {
        format!("these have that in their keys or aliases:{}", list(&near))
    }))
}

fn several(name: &str, found: &[Candidate]) -> Failure {
    let many = found.len().min(CANDIDATES);
    let more = if found.len() > CANDIDATES {
        " or more"
    } else {
        ""
    };
    let what = format!(
        "{} may be {many}{more} sessions:{}",
        quoted(name),
        list(found)
    );
    Failure::new(what).hint("give more of the key or alias")
}

/// Returns the first candidates, one per line.
fn list(found: &[Candidate]) -> String {
    let shown = found.iter().take(CANDIDATES);
    let lines = shown.map(|candidate| format!("\n  {}", safe::line(&candidate.shown)));
    lines.collect()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", safe::line(name))
}
