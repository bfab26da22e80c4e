//! `sessionlog tail`: the newest messages, and new ones.

mod anchor;
mod watch;

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use sessionlog::{Message, StoreHandle};

use self::anchor::Anchor;
use self::watch::{All, Few, Fresh};
use crate::cost::Cost;
use crate::excerpt::{self, Excerpt};
use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, Output};
use crate::select::Select;
use crate::store::Dir;
use crate::transcript::Transcript;
use crate::{names, resolve};

/// Show the newest messages, and with -f those that come
///
/// Of the sessions that are named, or of all. It looks at the files, beside the gateway that
/// writes them, so -f shows a message about half a second after it was said; in a large and
/// busy store it looks less often, so that it takes no more than a tenth of a core.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog tail DIR telegram:123456           the newest 10 messages
  sessionlog tail -f DIR telegram:123456        follow one conversation
  sessionlog tail -f DIR                        follow all
  sessionlog tail -f DIR --channel slack -n 0   follow a channel, from now on
  sessionlog tail -f DIR --json | jq -r '.session + \": \" + .message.content'

Ends with Ctrl-C. Without -f it exits with 1 if there are no messages, or if damaged lines are
left out among them.")]
pub(crate) struct Tail {
    #[command(flatten)]
    dir: Dir,
    /// Sessions: keys, aliases, or the beginnings of either; all if none is named
    #[arg(value_name = "SESSION", conflicts_with_all = ["prefix", "agent", "channel", "person", "chat", "label", "pinned"])]
    sessions: Vec<String>,
    #[command(flatten)]
    select: Select,
    /// Go on with those that come
    #[arg(short, long)]
    follow: bool,
    /// How many messages to begin with
    #[arg(
        short = 'n',
        long,
        visible_alias = "last",
        value_name = "N",
        default_value_t = 10
    )]
    limit: usize,
    /// Tool calls, their results and reasoning as a whole
    #[arg(long)]
    full: bool,
    /// One JSON object per line, with `session` and `message`
    #[arg(long)]
    json: bool,
    /// How often to look for more, at most
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = crate::times::parse_length)]
    interval: Duration,
}

/// Following spends at most one part in `SHARE` of its time looking.
const SHARE: u32 = 10;

/// The longest pause between looks: a follower must not seem dead.
const LONGEST: Duration = Duration::from_secs(10);

/// Number of looks in a row that may fail.
const FAILURES: usize = 20;

impl Tail {
    pub(crate) fn run(self) -> Result<Outcome> {
        let store = self.dir.read()?;
        let chats = &store.chats;
        let mut shown = Shown {
            out: Output::new(),
            transcript: Transcript { full: self.full },
            json: self.json,
            says_whose: self.sessions.len() != 1,
            any: false,
            left_out: 0,
        };
        if self.sessions.is_empty() {
            let mut all = All::new(self.dir.path(), self.select.query());
            let newest = all.listed(chats, self.limit, self.follow)?;
            self.newest_of(chats, &newest, &mut all, &mut shown)?;
            return self.follow(shown, || all.fresh(chats));
        }
        let keys = self
            .sessions
            .iter()
            .map(|name| resolve::session(chats, name));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let mut few = Few::default();
        for key in keys {
            let snapshot = chats.snapshot(&key).wait()?;
            let newest = Excerpt::newest(&snapshot, self.limit)?;
            few.push(&key, Anchor::at_end_of(&snapshot)?);
            shown.excerpt(&key, &newest)?;
        }
        self.follow(shown, || few.fresh(chats))
    }

    fn newest_of(
        &self,
        chats: &StoreHandle,
        sessions: &[String],
        all: &mut All,
        shown: &mut Shown,
    ) -> Result<()> {
        let mut entries = Vec::new();
        for key in sessions {
            let snapshot = chats.snapshot(key).wait()?;
            let excerpt = Excerpt::newest(&snapshot, self.limit)?;
            all.was_shown(key, &snapshot)?;
            // A damaged line goes with the message before it.
            let mut last = None;
            for one in excerpt.each() {
                let one = match one {
                    excerpt::Shown::Message(message) => {
                        last = anchor::time_of(message).or(last);
                        Ok(message.clone())
                    }
                    excerpt::Shown::Damaged(lines) => Err(lines),
                };
                entries.push((last, key, one));
            }
        }
        entries.sort_by_key(|(time, ..)| *time);
        let places = entries.iter().enumerate();
        let places: Vec<usize> = places
            .filter(|(_, (.., one))| one.is_ok())
            .map(|(place, _)| place)
            .collect();
        let first = match places.len().saturating_sub(self.limit) {
            0 => 0,
            nth => places.get(nth).copied().unwrap_or(entries.len()),
        };
        for (_, key, one) in &entries[first..] {
            match one {
                Ok(message) => shown.message(key, message)?,
                Err(lines) => shown.damaged(key, *lines)?,
            }
        }
        Ok(())
    }

    fn follow(
        &self,
        mut shown: Shown,
        mut look: impl FnMut() -> Result<Vec<Fresh>>,
    ) -> Result<Outcome> {
        shown.out.flush()?;
        let mut failures = 0;
        excerpt::note_damaged(shown.left_out);
        if !self.follow {
            let is_whole = shown.any && shown.left_out == 0;
            shown.out.finish()?;
            return Ok(Outcome::found(is_whole));
        }
        loop {
            let cost = Cost::begin();
            match look() {
                Ok(fresh) => {
                    failures = 0;
                    shown.all(&fresh)?;
                }
                Err(Failure::NobodyReads) => return Err(Failure::NobodyReads),
                Err(error) => {
                    failures += 1;
                    if failures == FAILURES {
                        return Err(error);
                    }
                }
            }
            let pause = (cost.so_far() * SHARE).min(LONGEST);
            std::thread::sleep(self.interval.max(pause));
        }
    }
}

/// The display of messages, and true if any was shown.
struct Shown {
    out: Output,
    transcript: Transcript,
    json: bool,
    /// True if each message names its session.
    says_whose: bool,
    any: bool,
    /// Number of damaged lines among them.
    left_out: usize,
}

#[derive(Serialize)]
struct Line<'a> {
    session: &'a str,
    message: &'a Message,
}

impl Shown {
    fn message(&mut self, session: &str, message: &Message) -> Result<()> {
        self.any = true;
        if self.json {
            return self.out.json(&Line { session, message });
        }
        let name = self.name(session);
        self.transcript
            .write(&mut self.out, name.as_deref(), message)
    }

    fn damaged(&mut self, session: &str, lines: usize) -> Result<()> {
        self.left_out += lines;
        if self.json {
            return Ok(());
        }
        let name = self.name(session);
        Transcript::damaged(&mut self.out, name.as_deref(), lines)
    }

    fn name(&self, session: &str) -> Option<String> {
        self.says_whose.then(|| names::name(session))
    }

    fn excerpt(&mut self, session: &str, excerpt: &Excerpt) -> Result<()> {
        for one in excerpt.each() {
            match one {
                excerpt::Shown::Message(message) => self.message(session, message)?,
                excerpt::Shown::Damaged(lines) => self.damaged(session, lines)?,
            }
        }
        Ok(())
    }

    fn all(&mut self, fresh: &[Fresh]) -> Result<()> {
        let before = self.left_out;
        for Fresh {
            key,
            remark,
            excerpt,
        } in fresh
        {
            if let Some(remark) = remark {
                self.out.flush()?;
                output::note(&format!("{key}: {remark}"));
            }
            self.excerpt(key, excerpt)?;
        }
        self.out.flush()?;
        excerpt::note_damaged(self.left_out - before);
        Ok(())
    }
}
