//! Which session a person means.

use sessionlog::{SessionInfo, SessionQuery, StoreHandle};

use crate::failure::{Failure, Result};
use crate::{names, safe};

/// How many candidates are listed.
const CANDIDATES: usize = 20;

/// The key of the session that `name` means: its key, one of its aliases, or the beginning
/// of either if no other session has one that begins so.
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
    let query = SessionQuery::new().prefix(name).limit(CANDIDATES + 1);
    let page = chats.sessions(query).wait()?;
    let unread = page.unreadable.into_iter();
    let mut keys: Vec<String> = unread.filter(|key| key.starts_with(name)).collect();
    keys.extend(page.sessions.into_iter().map(|session| session.key));
    if keys.is_empty() {
        keys = by_alias(chats, name)?;
    }
    match keys.len() {
        0 => Err(none(chats, name)?),
        1 => Ok(keys.remove(0)),
        _ => Err(several(name, &keys)),
    }
}

/// The sessions of which an alias begins so.
fn by_alias(chats: &StoreHandle, name: &str) -> Result<Vec<String>> {
    let page = chats
        .sessions(SessionQuery::new().limit(usize::MAX))
        .wait()?;
    let has = |session: &SessionInfo| session.aliases.iter().any(|alias| alias.starts_with(name));
    let found = page.sessions.into_iter().filter(has);
    Ok(found.map(|session| session.key).collect())
}

/// The key of the session that `name` means, which is its whole key or alias: for what changes
/// sessions, the beginning of a key is not enough.
///
/// # Errors
/// If there is none; the message says which may be meant.
pub(crate) fn whole(chats: &StoreHandle, name: &str) -> Result<String> {
    if let Some(key) = chats.resolve_session_key(name).wait()? {
        return Ok(key);
    }
    let near = session(chats, name)?;
    let what = format!("there is no session {}; nothing is changed", quoted(name));
    let hint = format!("a whole key is needed; is {} meant?", safe::line(&near));
    Err(Failure::new(what).hint(hint))
}

/// The sessions in the trash that have one of these keys there, had it before, or had it as an
/// alias.
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

fn none(chats: &StoreHandle, name: &str) -> Result<Failure> {
    let what = format!("there is no session {}", quoted(name));
    if !in_trash(chats, &[name])?.is_empty() {
        return Ok(Failure::new(what).hint(
            "it is in the trash: `sessionlog undelete DIR KEY` brings it back, `sessionlog ls DIR \
             --deleted` shows its key there",
        ));
    }
    let folded = name.to_lowercase();
    let all = chats.list_sessions().wait()?;
    let near = all
        .iter()
        .filter(|key| key.to_lowercase().contains(&folded));
    let near: Vec<&String> = near.take(CANDIDATES).collect();
    Ok(Failure::new(what).hint(if near.is_empty() {
        String::from("`sessionlog ls DIR` shows all; `sessionlog ls DIR --person ID` a person's")
    } else {
        format!("these have that in their keys:{}", list(near))
    }))
}

fn several(name: &str, keys: &[String]) -> Failure {
    let many = keys.len().min(CANDIDATES);
    let more = if keys.len() > CANDIDATES {
        " or more"
    } else {
        ""
    };
    let what = format!(
        "{} may be {many}{more} sessions:{}",
        quoted(name),
        list(keys.iter().take(CANDIDATES))
    );
    Failure::new(what).hint("give more of the key")
}

fn list<'a>(keys: impl IntoIterator<Item = &'a String>) -> String {
    let lines = keys
        .into_iter()
        .map(|key| format!("\n  {}", safe::line(key)));
    lines.collect()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", safe::line(name))
}
