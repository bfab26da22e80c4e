//! `sessionlog search`: messages that match a pattern.

use clap::Args;
use serde::Serialize;
use sessionlog::{
    FoundIn, OffsetDateTime, SearchHit, SearchQuery, SessionOrder, SessionQuery, StoreHandle,
};

use crate::failure::{Outcome, Result};
use crate::output::{self, DIM, KEY, MATCH, Output};
use crate::select::{self, Select};
use crate::store::Dir;
use crate::{names, progress, resolve, safe, times};

/// Find messages that say something
///
/// The pattern is a text as it stands, or with -E a regular expression. Reads every session it
/// is not told to leave out: nothing is indexed. A line of output is `session:time:role: text`,
/// or `session:summary: text`, the text cut to what is around the match.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog search DIR invoice
  sessionlog search DIR -i -E 'invoice|receipt' --role user --since 2026-11-01
  sessionlog search DIR invoice --person 123456     what was said with one person
  sessionlog search DIR password -l                 in which sessions
  sessionlog search DIR invoice --tool-calls --summaries
  sessionlog search DIR invoice --json | jq -r .message.content

Exits with 1 if nothing is found.")]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct Search {
    #[command(flatten)]
    dir: Dir,
    /// What to look for
    pattern: String,
    /// The pattern is a regular expression
    #[arg(short = 'E', long)]
    regex: bool,
    /// Upper and lower case are the same
    #[arg(short, long)]
    ignore_case: bool,
    /// Only what was said in this role; may be given several times
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// Only what was said at that time or later: yesterday, 2h, 2026-11-23, ...
    #[arg(long, value_name = "TIME", value_parser = select::time)]
    since: Option<OffsetDateTime>,
    /// Only what was said before that time
    #[arg(long, value_name = "TIME", value_parser = select::time)]
    until: Option<OffsetDateTime>,
    /// Only in this session
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["prefix", "agent", "channel", "person", "chat", "deleted"])]
    session: Option<String>,
    #[command(flatten)]
    select: Select,
    /// In the trash, in place of the others
    #[arg(long)]
    deleted: bool,
    /// Also in what truncations hid, and what compactions dropped and the archive keeps
    #[arg(long)]
    archived: bool,
    /// Also in the names and arguments of tool calls
    #[arg(long)]
    tool_calls: bool,
    /// Also in titles and summaries, unless --role, --since or --until asks for messages
    #[arg(long)]
    summaries: bool,
    /// Sessions changed last come first; else by file name
    #[arg(long)]
    newest: bool,
    /// Stop after so many messages
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// Characters shown before and after the match
    #[arg(short = 'C', long, value_name = "N", default_value_t = 60)]
    context: usize,
    /// Only the keys of the sessions in which it is
    #[arg(short = 'l', long, conflicts_with_all = ["json", "count"])]
    sessions: bool,
    /// Only how many messages of each session
    #[arg(short, long, conflicts_with = "json")]
    count: bool,
    /// One JSON object per message and line
    #[arg(long)]
    json: bool,
}

impl Search {
    pub(crate) fn run(self) -> Result<Outcome> {
        let store = self.dir.read()?;
        let (among, only) = self.among(&store.chats)?;
        let mut found = Found {
            search: &self,
            out: Output::new(),
            hits: 0,
            last: None,
        };
        let spinner = progress::endless("searching");
        let searched = self.each(&store.chats, (&among, only.as_deref()), &mut |hit| {
            spinner.suspend(|| found.take(hit))
        });
        spinner.finish_and_clear();
        let unread = searched?;
        let is_found = found.hits > 0;
        found.finish()?;
        if !is_found
            && store
                .chats
                .sessions(among.limit(1))
                .wait()?
                .sessions
                .is_empty()
        {
            output::note("no session fits");
        }
        for what in &unread {
            output::warn(what);
        }
        Ok(Outcome::found(is_found))
    }

    /// Visits the matches; returns the errors of sessions that could not be read.
    fn each(
        &self,
        chats: &StoreHandle,
        (among, only): (&SessionQuery, Option<&str>),
        visit: &mut dyn FnMut(&SearchHit) -> Result<()>,
    ) -> Result<Vec<String>> {
        let (mut unread, mut left) = (Vec::new(), self.limit.unwrap_or(usize::MAX));
        let mut search = chats.search(self.query().among(among.clone()));
        while left > 0
            && let Some(hit) = search.wait_next()
        {
            match hit {
                // Other sessions may have keys that begin the same.
                Ok(hit) if only.is_some_and(|only| only != hit.key) => {}
                Ok(hit) => {
                    left -= 1;
                    visit(&hit)?;
                }
                Err(error @ sessionlog::Error::Io { .. }) => unread.push(error.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(unread)
    }

    /// Returns the sessions to search, and the key if it is only one.
    fn among(&self, chats: &StoreHandle) -> Result<(SessionQuery, Option<String>)> {
        let mut among = self.select.query();
        if self.newest {
            among = among.order(SessionOrder::Updated);
        }
        if self.deleted {
            among = among.deleted();
        }
        let Some(name) = &self.session else {
            return Ok((among, None));
        };
        let key = resolve::session(chats, name)?;
        let mut trash = resolve::in_trash(chats, &[&key])?.into_iter();
        let own = trash.find(|session| session.key == key);
        among = match own.and_then(|session| session.deleted) {
            Some(deletion) => among.prefix(deletion.key).deleted(),
            None => among.prefix(&key),
        };
        Ok((among, Some(key)))
    }

    fn query(&self) -> SearchQuery {
        let mut query = SearchQuery::new()
            .ignore_case(self.ignore_case)
            .archived(self.archived)
            .tool_calls(self.tool_calls)
            .summaries(self.summaries);
        query = if self.regex {
            query.regex(&self.pattern)
        } else {
            query.text(&self.pattern)
        };
        for role in &self.role {
            query = query.role(role);
        }
        if let Some(since) = self.since {
            query = query.since(since);
        }
        if let Some(until) = self.until {
            query = query.until(until);
        }
        query
    }
}

/// The matches so far.
struct Found<'a> {
    search: &'a Search,
    out: Output,
    hits: usize,
    /// The session at hand, and the number of messages found in it.
    last: Option<(String, usize)>,
}

#[derive(Serialize)]
struct Line<'a> {
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    archived: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hidden: bool,
    /// The text that has the match: `text` of the message, `tool_name` or `tool_arguments` of a
    /// call, `summary` or `title` of the session.
    found_in: &'static str,
    /// The number of that call, the first being 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<usize>,
    /// The range of the first match in that text, bytes.
    matched: [usize; 2],
    message: &'a sessionlog::Message,
}

impl Found<'_> {
    fn take(&mut self, hit: &SearchHit) -> Result<()> {
        self.hits += 1;
        let is_new = self.last.as_ref().is_none_or(|(key, _)| *key != hit.key);
        if is_new {
            self.end_session()?;
            self.last = Some((hit.key.clone(), 0));
        }
        if let Some((_, hits)) = &mut self.last {
            *hits += 1;
        }
        if self.search.json {
            let (found_in, call) = place_of(hit);
            return self.out.json(&Line {
                session: &hit.key,
                archived: hit.archived.as_deref(),
                hidden: hit.hidden,
                found_in,
                call,
                matched: [hit.matched.start, hit.matched.end],
                message: &hit.message,
            });
        }
        if self.search.sessions && is_new {
            let name = names::name(&hit.key);
            let name = self.out.paint(KEY, &name);
            self.out.line(&name)?;
        }
        if !self.search.sessions && !self.search.count {
            self.line(hit)?;
        }
        if self.out.is_terminal() {
            self.out.flush()?;
        }
        Ok(())
    }

    fn line(&mut self, hit: &SearchHit) -> Result<()> {
        let (before, matched, after) = parts(hit, self.search.context);
        let name = names::name(&hit.key);
        let out = &self.out;
        let name = out.paint(KEY, &name);
        let about = out.paint(DIM, &about(hit));
        let matched = out.paint(MATCH, &safe::line(&matched));
        let text = format!("{}{matched}{}", safe::line(&before), safe::line(&after));
        self.out.line(&format!("{name}:{about}: {text}"))
    }

    fn end_session(&mut self) -> Result<()> {
        if let Some((key, hits)) = self.last.take()
            && self.search.count
        {
            let name = names::name(&key);
            let name = self.out.paint(KEY, &name);
            self.out.line(&format!("{name}:{hits}"))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.end_session()?;
        self.out.finish()
    }
}

/// Returns the text that has the match, and the number of its call if it is in one.
fn place_of(hit: &SearchHit) -> (&'static str, Option<usize>) {
    match hit.found_in {
        FoundIn::ToolName(nth) => ("tool_name", Some(nth)),
        FoundIn::ToolArguments(nth) => ("tool_arguments", Some(nth)),
        FoundIn::Summary => ("summary", None),
        FoundIn::Title => ("title", None),
        _ => ("text", None),
    }
}

/// Returns the part of a line between name and text: time, role, and the kind of place. A summary
/// and a title have neither time nor role.
fn about(hit: &SearchHit) -> String {
    let said = || {
        let time = times::shown(hit.message.created_at().unwrap_or_default());
        format!("{time}:{}", safe::line(hit.message.role()))
    };
    let called = |nth: usize| {
        let call = hit.message.tool_calls().get(nth);
        let function = call.and_then(|call| call.function.as_ref());
        safe::short(function.map_or("", |function| &function.name), 40)
    };
    let mut about = match hit.found_in {
        FoundIn::Summary => String::from("summary"),
        FoundIn::Title => String::from("title"),
        FoundIn::ToolName(_) => format!("{} (calls)", said()),
        FoundIn::ToolArguments(nth) => format!("{} (calls {})", said(), called(nth)),
        _ => said(),
    };
    match (&hit.archived, hit.hidden) {
        (Some(_), _) => about.push_str(" (archived)"),
        (None, true) => about.push_str(" (hidden)"),
        (None, false) => {}
    }
    about
}

/// Returns the text before the match, the match, and the text after it, up to `around` characters
/// each; `…` where there is more.
fn parts(hit: &SearchHit, around: usize) -> (String, String, String) {
    let text = hit.text();
    let before = text.get(..hit.matched.start).unwrap_or_default();
    let after = text.get(hit.matched.end..).unwrap_or_default();
    let matched = text.get(hit.matched.clone()).unwrap_or_default();
    let head: Vec<char> = before.chars().rev().take(around).collect();
    let is_all = head.len() < around || before.chars().count() == around;
    let mut start = String::from(if is_all { "" } else { "…" });
    start.extend(head.into_iter().rev());
    let mut end: String = after.chars().take(around).collect();
    if end.len() < after.len() {
        end.push('…');
    }
    // A match may be as long as the message.
    (start, safe_length(matched), end)
}

fn safe_length(matched: &str) -> String {
    const MOST: usize = 1_000;
    let mut short: String = matched.chars().take(MOST).collect();
    if short.len() < matched.len() {
        short.push('…');
    }
    short
}
