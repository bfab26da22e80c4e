//! Reads a file of updates and sorts them by chat.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead};

use sessionlog::scope::Allocation;

use crate::inbound::{self, Ignored, Inbound, Parsed, Platform};
use crate::sessions::Sessions;

/// What the updates held.
#[derive(Default)]
pub(crate) struct Intake {
    /// One entry per session, in the order in which they first spoke.
    pub(crate) chats: Vec<Chat>,
    pub(crate) counts: Counts,
    /// Line number, counted from one, and what is wrong with it.
    pub(crate) malformed: Vec<(u64, String)>,
}

/// The messages of one session, in order of arrival.
pub(crate) struct Chat {
    pub(crate) session: Allocation,
    /// The linked person whose private conversation this is.
    pub(crate) person: Option<String>,
    pub(crate) messages: Vec<Inbound>,
}

/// How many updates were what.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) updates: u64,
    pub(crate) messages: u64,
    /// Messages by platform, in the order of [`Platform::ALL`].
    pub(crate) by_platform: [u64; 3],
    pub(crate) redeliveries: u64,
    pub(crate) edits: u64,
    pub(crate) bots: u64,
    pub(crate) service: u64,
}

impl Intake {
    /// Reads to the end. A line that is no update is noted and passed over.
    pub(crate) fn read(mut lines: impl BufRead, sessions: &Sessions) -> io::Result<Self> {
        let mut sorter = Sorter {
            intake: Self::default(),
            chat_at: HashMap::new(),
            seen: HashSet::new(),
            sessions,
        };
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let text = line.trim_ascii();
            if !text.is_empty() {
                sorter.take(number, text);
            }
        }
        Ok(sorter.intake)
    }
}

impl Chat {
    /// How many messages came from each platform, in the order of
    /// [`Platform::ALL`].
    pub(crate) fn by_platform(&self) -> [usize; 3] {
        let from = |platform| self.messages.iter().filter(move |m| m.platform == platform);
        Platform::ALL.map(|platform| from(platform).count())
    }

    /// The chats' own names are the aliases. PicoClaw's are for a gateway that
    /// takes over its directory: they go by sender, and here a sender may have
    /// several private chats, which would all claim them.
    fn begin(mut session: Allocation, first: &Inbound, sessions: &Sessions) -> Self {
        session.session_aliases.clear();
        let private = first.context.chat_type == "direct";
        let person = sessions.person(&first.context).filter(|_| private);
        Self {
            session,
            person: person.map(String::from),
            messages: Vec::new(),
        }
    }

    fn add(&mut self, message: Inbound) {
        let aliases = &mut self.session.session_aliases;
        if !aliases.contains(&message.alias) {
            aliases.push(message.alias.clone());
        }
        self.messages.push(message);
    }
}

struct Sorter<'a> {
    intake: Intake,
    chat_at: HashMap<String, usize>,
    seen: HashSet<(Platform, String)>,
    sessions: &'a Sessions,
}

impl Sorter<'_> {
    fn take(&mut self, number: u64, line: &[u8]) {
        let counts = &mut self.intake.counts;
        counts.updates += 1;
        match inbound::parse(line) {
            Ok(Parsed::Message(message)) => self.sort(*message),
            Ok(Parsed::Ignored(Ignored::Edit)) => counts.edits += 1,
            Ok(Parsed::Ignored(Ignored::Bot)) => counts.bots += 1,
            Ok(Parsed::Ignored(Ignored::Service)) => counts.service += 1,
            Err(reason) => self.intake.malformed.push((number, reason)),
        }
    }

    fn sort(&mut self, message: Inbound) {
        let counts = &mut self.intake.counts;
        if !self
            .seen
            .insert((message.platform, message.dedupe_id.clone()))
        {
            counts.redeliveries += 1;
            return;
        }
        counts.messages += 1;
        counts.by_platform[message.platform as usize] += 1;
        let chats = &mut self.intake.chats;
        let session = self.sessions.find(&message.context);
        let key = session.session_key.clone();
        let at = *self.chat_at.entry(key).or_insert_with(|| {
            chats.push(Chat::begin(session, &message, self.sessions));
            chats.len() - 1
        });
        chats[at].add(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn update(id: u32, chat: u32, text: &str) -> String {
        format!(
            r#"{{"update_id":{id},"message":{{"message_id":{id},"date":0,"text":"{text}",
                "from":{{"id":1,"is_bot":false,"first_name":"Ana"}},"chat":{{"id":{chat}}}}}}}"#
        )
        .replace('\n', "")
    }

    fn sessions() -> Sessions {
        Sessions::new(Config::checked_in())
    }

    fn read(lines: &[String]) -> Intake {
        Intake::read(lines.join("\n").as_bytes(), &sessions()).unwrap()
    }

    #[test]
    fn a_redelivery_is_dropped_however_late_it_comes() {
        let intake = read(&[
            update(1, 7, "a"),
            update(1, 7, "a"),
            update(2, 8, "b"),
            update(3, 7, "c"),
            update(1, 7, "a"),
        ]);
        assert_eq!(intake.counts.redeliveries, 2);
        let texts: Vec<&str> = intake.chats[0]
            .messages
            .iter()
            .map(|m| m.text.as_str())
            .collect();
        assert_eq!(texts, ["a", "c"]);
        assert_eq!(intake.chats.len(), 2);
    }

    #[test]
    fn a_malformed_line_is_named_by_its_number_and_costs_only_itself() {
        let intake = read(&[
            update(1, 7, "a"),
            String::new(),
            "{oops".into(),
            update(2, 7, "b"),
        ]);
        assert_eq!(intake.malformed.len(), 1);
        assert_eq!(intake.malformed[0].0, 3);
        assert_eq!(intake.counts.messages, 2);
    }

    /// The checked-in file is what the example shows by default: were it to
    /// shrink or lose a kind of update, the example would show less than it says.
    #[test]
    fn the_checked_in_updates_cover_what_a_gateway_meets() {
        let intake = Intake::read(&include_bytes!("../updates.jsonl")[..], &sessions()).unwrap();
        let counts = &intake.counts;
        assert!(intake.malformed.is_empty(), "{:?}", intake.malformed);
        assert!(counts.updates >= 2_400 && intake.chats.len() >= 240);
        assert!(counts.edits * 100 >= counts.updates * 3);
        assert!(counts.redeliveries * 100 >= counts.updates * 3);
        assert!(counts.bots > 0 && counts.service > 0);
        assert!(counts.by_platform.iter().all(|&messages| messages >= 300));
        let keys = |prefix: &str, slashes: usize| {
            let matching = |chat: &&Chat| {
                let alias = &chat.messages[0].alias;
                alias.starts_with(prefix) && alias.matches('/').count() == slashes
            };
            intake.chats.iter().filter(matching).count()
        };
        assert!(keys("telegram:", 1) >= 20, "forum topics");
        assert!(keys("slack:", 2) >= 20, "threads");
        assert!(keys("discord:dm/", 1) >= 20, "direct messages");
        let longest = |chat: &Chat| chat.messages.iter().map(|m| m.text.len()).max();
        assert!(intake.chats.iter().filter_map(longest).max() >= Some(8_000));
    }
}
