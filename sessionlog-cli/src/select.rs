//! The selection of a command's sessions.

use clap::Args;
use sessionlog::{OffsetDateTime, SessionQuery, StoreHandle, Whose};

use crate::failure::Result;
use crate::times;

/// Which sessions; all that fit, of several filters those that fit all.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which sessions")]
pub(crate) struct Select {
    /// Those whose keys begin so
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Those of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Those on this channel, such as telegram
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Conversations with one person, by the id on the platform or the linked name. A session is
    /// found by its scope, or by a key such as agent:main:telegram:direct:7; telegram:7 names no person
    #[arg(
        long,
        value_name = "ID",
        conflicts_with = "chat",
        allow_hyphen_values = true
    )]
    person: Option<String>,
    /// Conversations in one chat, by its id on the platform
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    chat: Option<String>,
    /// Those with this label; repeated, those with all
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
    /// Those that are pinned
    #[arg(long)]
    pinned: bool,
}

impl Select {
    /// True if all sessions match.
    pub(crate) fn is_any(&self) -> bool {
        let Self {
            prefix,
            agent,
            channel,
            person,
            chat,
            label,
            pinned,
        } = self;
        let texts = [prefix, agent, channel, person, chat];
        texts.into_iter().all(Option::is_none) && label.is_empty() && !pinned
    }

    /// Returns the keys that have the id of the person or chat as a part of their own, if no
    /// session's scope names it.
    ///
    /// # Errors
    /// The errors of the store.
    pub(crate) fn near(&self, chats: &StoreHandle, keys: &[String]) -> Result<Vec<String>> {
        let Some(id) = self.person.as_ref().or(self.chat.as_ref()) else {
            return Ok(Vec::new());
        };
        let whose = |whose: Whose| match self.person {
            Some(_) => SessionQuery::new().person(whose),
            None => SessionQuery::new().chat(whose),
        };
        let theirs = chats.sessions(whose(Whose::new(id)).limit(1)).wait()?;
        if !theirs.sessions.is_empty() {
            return Ok(Vec::new());
        }
        let has = |key: &&String| key.split(':').any(|part| part == id);
        Ok(keys.iter().filter(has).cloned().collect())
    }

    /// Returns the query that finds them.
    pub(crate) fn query(&self) -> SessionQuery {
        let mut query = SessionQuery::new();
        if let Some(prefix) = &self.prefix {
            query = query.prefix(prefix);
        }
        if let Some(agent) = &self.agent {
            query = query.agent(agent);
        }
        if let Some(channel) = &self.channel {
            query = query.channel(channel);
        }
        for label in &self.label {
            query = query.label(label);
        }
        if self.pinned {
            query = query.pinned();
        }
        let on = |id: &String| {
            let whose = Whose::new(id);
            match &self.channel {
                Some(channel) => whose.on(channel),
                None => whose,
            }
        };
        match (&self.person, &self.chat) {
            (Some(person), _) => query.person(on(person)),
            (None, Some(chat)) => query.chat(on(chat)),
            (None, None) => query,
        }
    }
}

/// Reads a time of the command line.
pub(crate) fn time(text: &str) -> std::result::Result<OffsetDateTime, String> {
    times::parse(text)
}
