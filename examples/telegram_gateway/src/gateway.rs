//! Answering what is stored.
//!
//! A question carries the id of its update, `update_id`, and an answer carries the same id as
//! `answers`. The label `sent ID` says up to which question the answers have been sent. So what
//! is left to do stands in the store alone: the first question behind that label is to be
//! answered, or its stored answer is to be sent. After a crash the gateway goes on from there.
//!
//! A message that Telegram delivered is stored once, and has one answer in the store. The answer
//! is sent at least once. The Bot API knows no key by which it would ignore a second
//! `sendMessage`, so a crash between that call and the label sends the answer again.
//!
//! A question that the model does not answer gets an apology, so that it does not hold up those
//! behind it. The apology is an answer as others are. Its field `failed` says why, and later
//! requests leave it out together with its question: the model might refuse them for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_openai::error::OpenAIError;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sessionlog::{
    Budget, Erase, Keep, Message, Session, SessionQuery, SessionSnapshot, StoreHandle, Update,
    Version,
};
use teloxide::dispatching::dialogue::Dialogue;
use teloxide::prelude::Requester;
use teloxide::types::{ChatId, UpdateKind};
use teloxide::{Bot, RequestError};

use crate::dialogues::SessionDialogues;
use crate::model::{Model, is_permanent};

/// An error that ends the work on a chat until its next message, or the next start.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Requests to the model before it is apologised for, and to Telegram before a chat is left for
/// later.
const ATTEMPTS: u32 = 5;
/// The answer to a question that the model does not answer.
pub const APOLOGY: &str =
    "Sorry, I could not answer that. Please ask again, perhaps in other words.";
/// Chats that are answered at the same time at the start.
const AT_ONCE: usize = 16;
/// Characters of a message that Telegram takes.
const LONGEST: usize = 4096;
/// The beginning of every chat's key.
const PREFIX: &str = "telegram:";

/// A bot, its store and its model.
pub struct Gateway {
    bot: Bot,
    chats: StoreHandle,
    model: Model,
    dialogues: Arc<SessionDialogues<Asked>>,
    window: Budget,
    summarise_over: usize,
    is_stopping: AtomicBool,
    is_broken: AtomicBool,
}

/// The question that a person has not answered yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Asked {
    /// "Erase everything?"
    WhetherToErase,
}

/// The sizes of what the model gets of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Tokens of the window, as the store estimates them.
    pub tokens: usize,
    /// Messages that the window may leave out before they are summarised.
    pub omitted: usize,
}

impl Gateway {
    /// Puts a bot, a store and a model together.
    #[must_use]
    pub fn new(bot: Bot, chats: StoreHandle, model: Model, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            bot,
            model,
            dialogues: SessionDialogues::new(chats.clone()),
            chats,
            window: Budget::unlimited().tokens(limits.tokens),
            summarise_over: limits.omitted,
            is_stopping: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
        })
    }

    /// Begins no more answers. What has none is answered after the next start.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the store refused a message for good. Then the process should end and be started
    /// again, which recovers the store.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Stores the message of an update, once, and returns whether updates may go on: nothing
    /// may be taken after a message that could not be stored. Waits while the disk is full.
    pub async fn take(&self, update: &teloxide::types::Update) -> bool {
        let UpdateKind::Message(message) = &update.kind else {
            return true;
        };
        let Some(text) = message.text() else {
            return true;
        };
        let id = update.id.0.to_string();
        let question = json!({ "role": "user", "content": text, "update_id": update.id.0 });
        let question = from_json(&question);
        loop {
            let stored = self
                .chats
                .append_once(&key(message.chat.id), &id, question.clone());
            match stored.await {
                // A duplicate may have no answer yet: its handler looks. A message that is too
                // large will not become smaller.
                Ok(_) | Err(sessionlog::Error::MessageTooLarge { .. }) => return true,
                Err(error) if error.is_retryable() && !self.is_stopping() => {
                    eprintln!("update {id} waits: {error}");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Err(error) => {
                    eprintln!("update {id} is left to Telegram: {error}");
                    self.is_broken.store(!self.is_stopping(), Ordering::Relaxed);
                    return false;
                }
            }
        }
    }

    /// Answers what an earlier process left, before new messages are asked for.
    ///
    /// # Errors
    /// Those of listing sessions. A chat that fails is left for later.
    pub async fn catch_up(&self) -> sessionlog::Result<()> {
        let mut query = SessionQuery::new().prefix(PREFIX);
        loop {
            let page = self.chats.sessions(query.clone()).await?;
            let keys = page.sessions.iter().map(|session| &session.key);
            let chats = keys.filter_map(|key| key.strip_prefix(PREFIX)?.parse().ok());
            futures_util::stream::iter(chats)
                .for_each_concurrent(AT_ONCE, |chat| self.settle_or_say(ChatId(chat)))
                .await;
            match page.next {
                Some(next) => query = query.after(next),
                None => return Ok(()),
            }
        }
    }

    /// [`settle`](Self::settle), with a failure written to the log.
    pub async fn settle_or_say(&self, chat: ChatId) {
        if let Err(error) = self.settle(chat).await {
            eprintln!("{} is left for later: {error}", key(chat));
        }
    }

    /// Answers every question of a chat that has no answer, in order, and sends every answer
    /// that was not sent. One call at a time for each chat: `teloxide` runs a chat's handlers
    /// one after the other.
    ///
    /// # Errors
    /// Those of the store and Telegram, and those of a summary. The rest is done by the next call.
    pub async fn settle(&self, chat: ChatId) -> Result<(), Failure> {
        let session = self.chats.session(&key(chat));
        while !self.is_stopping() {
            let now = session.snapshot().await?;
            let history = now.history().await?;
            let Some((id, question)) = first_open(&history, &now.meta().tags.labels) else {
                return self.summarise(&session, now.version()).await;
            };
            let answer = match answer_to(&history, id) {
                Some(stored) => stored.text().into_owned(),
                None => match self.answer(chat, &session, &now, id, question).await? {
                    Some(answer) => answer,
                    // Nothing is left of the chat that a label could be put on.
                    None => continue,
                },
            };
            self.send(chat, &answer).await?;
            let mut labels = now.meta().tags.labels;
            labels.retain(|label| !label.starts_with(SENT));
            labels.push(format!("{SENT}{id}"));
            session.set_labels(labels).await?;
        }
        Ok(())
    }

    /// Answers a question, and stores the answer; `None` if the person had the chat erased.
    async fn answer(
        &self,
        chat: ChatId,
        session: &Session,
        now: &SessionSnapshot,
        id: u64,
        question: &Message,
    ) -> Result<Option<String>, Failure> {
        let dialogue = Dialogue::<Asked, _>::new(Arc::clone(&self.dialogues), chat);
        let text = question.text();
        let (answer, failed) = match (text.trim(), dialogue.get().await?) {
            ("/erase", _) => {
                dialogue.update(Asked::WhetherToErase).await?;
                let question = "Everything that was said here? Answer YES to erase it.";
                (String::from(question), None)
            }
            ("YES", Some(Asked::WhetherToErase)) => {
                let receipt = self.chats.erase(Erase::key(session.key())).await?;
                let of_dialogue = SessionDialogues::<Asked>::key(chat);
                let rest = self.chats.erase(Erase::key(of_dialogue)).await?;
                if !(receipt.is_complete() && rest.is_complete()) {
                    eprintln!("{}: {receipt:?}, {rest:?}", session.key());
                }
                self.send(chat, "Everything is erased.").await?;
                return Ok(None);
            }
            (_, asked) => {
                if asked.is_some() {
                    dialogue.exit().await?;
                }
                let window = session.window(self.window.clone()).await?;
                let prompt = prompt(&window.summary, &window.messages, question);
                match self.ask(&prompt).await {
                    Ok(answer) => (answer, None),
                    // The next start asks again.
                    Err(error) if self.is_stopping() && !is_permanent(&error) => {
                        return Err(error.into());
                    }
                    Err(error) => {
                        eprintln!("{}: question {id} is not answered: {error}", session.key());
                        (String::from(APOLOGY), Some(error.to_string()))
                    }
                }
            }
        };
        let mut stored = json!({ "role": "assistant", "content": answer, "answers": id });
        match failed {
            Some(why) => stored[FAILED] = json!(why),
            None => stored["model_name"] = json!(self.model.name()),
        }
        // A chat that was erased meanwhile does not begin again with an answer.
        session.append_after(now.end(), from_json(&stored)).await?;
        Ok(Some(answer))
    }

    /// Asks the model, again if an error may pass.
    async fn ask(&self, prompt: &[(&str, String)]) -> Result<String, OpenAIError> {
        let mut attempt = 1;
        loop {
            let answer = self.model.answer(prompt).await;
            let is_final = |error| is_permanent(error) || attempt == ATTEMPTS || self.is_stopping();
            if answer.as_ref().err().is_none_or(is_final) {
                return answer;
            }
            tokio::time::sleep(pause(attempt)).await;
            attempt += 1;
        }
    }

    /// Sends a text in as many messages as it takes. What Telegram refuses counts as sent: a
    /// person who blocked the bot would hold up the chat for ever.
    async fn send(&self, chat: ChatId, text: &str) -> Result<(), Failure> {
        let characters: Vec<char> = text.chars().collect();
        for part in characters.chunks(LONGEST) {
            let part: String = part.iter().collect();
            for attempt in 1.. {
                match self.bot.send_message(chat, &part).await {
                    Ok(_) => break,
                    Err(RequestError::Api(error)) => {
                        eprintln!("{}: {error}", key(chat));
                        return Ok(());
                    }
                    Err(RequestError::RetryAfter(wait)) if !self.is_stopping() => {
                        tokio::time::sleep(wait.duration()).await;
                    }
                    Err(error) if attempt == ATTEMPTS || self.is_stopping() => {
                        return Err(error.into());
                    }
                    Err(_) => tokio::time::sleep(pause(attempt)).await,
                }
            }
        }
        Ok(())
    }

    /// Summarises what the window leaves out, if that is much. At `settled` every question had
    /// its answer; a later question might be among what is left out, so then it waits.
    async fn summarise(&self, session: &Session, settled: Version) -> Result<(), Failure> {
        let window = session.window(self.window.clone()).await?;
        if window.omitted <= self.summarise_over || window.is_partial || window.version != settled {
            return Ok(());
        }
        let now = session.snapshot().await?;
        let older = now.before(window.start, usize::MAX).await?;
        let mut request = prompt(&window.summary, &older.messages, &Message::user(""));
        request.pop();
        request.push(("user", String::from("Summarise what we said so far.")));
        let summary = self.ask(&request).await?;
        // What came while the model wrote stays, as it stands behind the window's start.
        let update = Update::new()
            .after(window.start)
            .summary(summary)
            .keep(Keep::From(window.start));
        session.update(update).await?;
        Ok(())
    }
}

const SENT: &str = "sent ";
/// The field that says why an answer is an apology.
const FAILED: &str = "failed";

/// Returns the key of a chat's conversation.
#[must_use]
pub fn key(chat: ChatId) -> String {
    format!("{PREFIX}{chat}")
}

/// The first question behind the one up to which answers were sent. Ids are compared for
/// equality alone: after a quiet week Telegram begins at a random one.
fn first_open<'a>(history: &'a [Message], labels: &[String]) -> Option<(u64, &'a Message)> {
    let sent = labels
        .iter()
        .find_map(|label| label.strip_prefix(SENT)?.parse().ok());
    let mut questions = history
        .iter()
        .filter_map(|m| Some((number(m, "update_id")?, m)));
    let all = questions.clone();
    if questions.any(|(id, _)| Some(id) == sent) {
        return questions.next();
    }
    // The one that the label names was summarised, with all before it, or never was.
    all.into_iter().next()
}

fn answer_to(history: &[Message], question: u64) -> Option<&Message> {
    history
        .iter()
        .find(|m| number(m, "answers") == Some(question))
}

fn number(message: &Message, field: &str) -> Option<u64> {
    message.unknown_field(field)?.parse().ok()
}

/// What the model is given: each answer behind its question, and last the question that it is
/// to answer. Later questions that were stored already are left out, and those that the model
/// did not answer.
fn prompt(summary: &str, window: &[Message], question: &Message) -> Vec<(&'static str, String)> {
    let mut prompt = Vec::new();
    if !summary.is_empty() {
        prompt.push(("system", format!("What was said before: {summary}")));
    }
    for answer in window
        .iter()
        .filter(|message| message.role() == "assistant" && message.unknown_field(FAILED).is_none())
    {
        let asked = number(answer, "answers");
        let asked = window
            .iter()
            .find(|m| asked.is_some() && number(m, "update_id") == asked);
        prompt.extend(asked.map(|asked| ("user", asked.text().into_owned())));
        prompt.push(("assistant", answer.text().into_owned()));
    }
    prompt.push(("user", question.text().into_owned()));
    prompt
}

/// A message with fields of the gateway's own, which stand in its line.
fn from_json(message: &serde_json::Value) -> Message {
    let json = message.to_string();
    Message::from_json(json.as_bytes()).expect("it has a role and a text")
}

fn pause(attempt: u32) -> Duration {
    Duration::from_millis(250) * 2_u32.pow(attempt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: u64, text: &str) -> Message {
        from_json(&json!({ "role": "user", "content": text, "update_id": id }))
    }

    fn answered(id: u64, text: &str) -> Message {
        from_json(&json!({ "role": "assistant", "content": text, "answers": id }))
    }

    #[test]
    fn questions_that_came_at_once_are_put_to_the_model_one_by_one() {
        let history = [
            asked(1, "a?"),
            asked(2, "b?"),
            asked(3, "c?"),
            answered(1, "a!"),
        ];
        let texts: Vec<_> = prompt("", &history, &history[1])
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        assert_eq!(texts, ["a?", "a!", "b?"]);
    }

    #[test]
    fn a_question_that_the_model_refused_is_in_no_later_request() {
        let mut apology = json!({ "role": "assistant", "content": APOLOGY, "answers": 1 });
        apology[FAILED] = json!("400 Bad Request");
        let history = [asked(1, "a?"), from_json(&apology), asked(2, "b?")];
        let given = prompt("", &history, &history[2]);
        assert_eq!(given, [("user", String::from("b?"))]);
    }

    #[test]
    fn the_first_question_behind_the_label_is_open_whatever_the_numbers_are() {
        let history = [asked(900, "a?"), asked(7, "b?"), answered(900, "a!")];
        let open = |labels: &[&str]| {
            let labels: Vec<_> = labels.iter().map(|&label| label.to_owned()).collect();
            first_open(&history, &labels).map(|(id, _)| id)
        };
        assert_eq!(open(&[]), Some(900));
        assert_eq!(open(&["sent 900"]), Some(7));
        assert_eq!(open(&["sent 7"]), None);
        assert_eq!(open(&["sent 1"]), Some(900));
        assert_eq!(
            answer_to(&history, 900)
                .map(|m| m.text().into_owned())
                .as_deref(),
            Some("a!")
        );
        assert!(answer_to(&history, 7).is_none());
    }
}
