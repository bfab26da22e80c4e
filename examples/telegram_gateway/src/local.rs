//! Telegram and a model on this computer, for trying the gateway and for its tests.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Json, Path, State};
pub use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// A server that speaks as much of the Bot API as a gateway needs: `getMe`, `getWebhookInfo`,
/// `deleteWebhook`, `getUpdates` with long polling, and `sendMessage`. It keeps an update until
/// it is asked for a later one, as Telegram does.
#[derive(Clone)]
pub struct BotApi {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Chats>,
    came: Notify,
    sent: Notify,
}

#[derive(Default)]
struct Chats {
    updates: u32,
    messages: i32,
    pending: VecDeque<(u32, Value)>,
    /// Updates that were received already, to be delivered again.
    received: VecDeque<(u32, Value)>,
    polls: u64,
    redeliver_every: Option<u64>,
    sent: Vec<Sent>,
}

/// A message that the bot sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The chat.
    pub chat: i64,
    /// The text.
    pub text: String,
}

impl BotApi {
    /// Starts the server at a port of this computer, or at a free one for 0. With `redeliver_every` it delivers some updates again at every so many
    /// polls, although they were received: Telegram does so rarely, and a gateway has to bear it.
    ///
    /// # Errors
    /// Those of listening.
    pub async fn start(port: u16, redeliver_every: Option<u64>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.state().redeliver_every = redeliver_every;
        let app = Router::new()
            .route("/{bot}/{method}", any(call))
            .with_state(Arc::clone(&shared));
        let address = serve(app, port).await?;
        Ok(Self { address, shared })
    }

    /// Returns the address, as [`Bot::set_api_url`](teloxide::Bot::set_api_url) wants it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A person says something in a private chat.
    pub fn say(&self, chat: i64, text: &str) {
        let mut chats = self.shared.state();
        chats.updates += 1;
        let id = chats.updates;
        let mut message = chats.message(chat, text);
        message["from"] = json!({ "id": chat, "is_bot": false, "first_name": "Sam" });
        let update = json!({ "update_id": id, "message": message });
        chats.pending.push_back((id, update));
        drop(chats);
        self.shared.came.notify_waiters();
    }

    /// Returns what the bot sent so far.
    #[must_use]
    pub fn sent(&self) -> Vec<Sent> {
        self.shared.state().sent.clone()
    }

    /// Waits until what was sent `is` so, and returns it.
    pub async fn sent_until(&self, is: impl Fn(&[Sent]) -> bool) -> Vec<Sent> {
        loop {
            let more = self.shared.sent.notified();
            let sent = self.sent();
            if is(&sent) {
                return sent;
            }
            more.await;
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Chats> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn updates(&self, parameters: &Value) -> Vec<Value> {
        let offset = parameters["offset"].as_i64().unwrap_or(0);
        let timeout = parameters["timeout"].as_u64().unwrap_or(0);
        let limit = parameters["limit"].as_u64().unwrap_or(100) as usize;
        let timeout = tokio::time::sleep(Duration::from_secs(timeout));
        tokio::pin!(timeout);
        loop {
            let came = self.came.notified();
            let updates = self.state().poll(offset, limit);
            if !updates.is_empty() {
                return updates;
            }
            tokio::select! {
                () = came => {}
                () = &mut timeout => return Vec::new(),
            }
        }
    }

    fn send(&self, parameters: &Value) -> Value {
        let mut chats = self.state();
        let chat = parameters["chat_id"].as_i64().unwrap_or(0);
        let text = parameters["text"].as_str().unwrap_or_default();
        let message = chats.message(chat, text);
        let text = text.to_owned();
        chats.sent.push(Sent { chat, text });
        drop(chats);
        self.sent.notify_waiters();
        message
    }
}

impl Chats {
    fn message(&mut self, chat: i64, text: &str) -> Value {
        self.messages += 1;
        json!({
            "message_id": self.messages, "date": 1_795_860_000, "text": text,
            "chat": { "id": chat, "type": "private", "first_name": "Sam" },
        })
    }

    /// Forgets what comes before `offset`, and returns what is next.
    fn poll(&mut self, offset: i64, limit: usize) -> Vec<Value> {
        self.polls += 1;
        while let Some((id, _)) = self.pending.front() {
            if i64::from(*id) >= offset {
                break;
            }
            self.received.extend(self.pending.pop_front());
        }
        let again = self
            .redeliver_every
            .filter(|every| self.polls.is_multiple_of(*every));
        let again = again.map_or(0, |_| 3.min(self.received.len()));
        let again = self.received.range(self.received.len() - again..);
        let updates = again.chain(&self.pending).take(limit);
        updates.map(|(_, update)| update.clone()).collect()
    }
}

async fn call(
    State(shared): State<Arc<Shared>>,
    Path((_, method)): Path<(String, String)>,
    parameters: Option<Json<Value>>,
) -> Json<Value> {
    let parameters = parameters.map_or(Value::Null, |Json(parameters)| parameters);
    let result = match &*method.to_ascii_lowercase() {
        "getme" => json!({
            "id": 1, "is_bot": true, "first_name": "Bot", "username": "local_bot",
            "can_join_groups": true, "can_read_all_group_messages": false,
            "supports_inline_queries": false, "can_connect_to_business": false,
            "has_main_web_app": false,
        }),
        "getwebhookinfo" => json!({
            "url": "", "has_custom_certificate": false, "pending_update_count": 0,
        }),
        "deletewebhook" => json!(true),
        "getupdates" => json!(shared.updates(&parameters).await),
        "sendmessage" => shared.send(&parameters),
        _ => {
            let what = format!("Not Found: {method}");
            return Json(json!({ "ok": false, "error_code": 404, "description": what }));
        }
    };
    Json(json!({ "ok": true, "result": result }))
}

/// A model that repeats what it was asked last, word by word.
pub struct EchoModel {
    address: SocketAddr,
    refusals: Arc<Mutex<Refusals>>,
}

#[derive(Default)]
struct Refusals {
    rules: Vec<Refusal>,
    refused: usize,
}

/// Requests that are refused.
struct Refusal {
    /// A text in one of their messages.
    text: String,
    status: StatusCode,
    /// The number of requests that are yet to be refused.
    times: usize,
}

impl EchoModel {
    /// Starts the server at a port of this computer, or at a free one for 0. Each word takes
    /// `pause`.
    ///
    /// # Errors
    /// Those of listening.
    pub async fn start(port: u16, pause: Duration) -> std::io::Result<Self> {
        let refusals = Arc::<Mutex<Refusals>>::default();
        let rules = Arc::clone(&refusals);
        let complete = move |Json(request): Json<Value>| {
            let mut rules = rules.lock().unwrap_or_else(PoisonError::into_inner);
            std::future::ready(match rules.of(&request) {
                Some(status) => refusal(status),
                None => stream_answer(&request, pause),
            })
        };
        let app = Router::new().route("/v1/chat/completions", post(complete));
        let address = serve(app, port).await?;
        Ok(Self { address, refusals })
    }

    /// Refuses so many requests in which a message says `text`, with this HTTP status.
    pub fn refuse(&self, text: &str, status: StatusCode, times: usize) {
        let text = text.to_owned();
        let rule = Refusal {
            text,
            status,
            times,
        };
        self.refusals().rules.push(rule);
    }

    /// Returns how many requests were refused.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.refusals().refused
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address, as [`Model::new`](crate::model::Model::new) wants it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the answer to a question in a conversation of so many messages.
    #[must_use]
    pub fn answer(question: &str, messages: usize) -> String {
        format!("You are asking me, as message {messages}: {question}")
    }
}

impl Refusals {
    /// The status that a request is refused with.
    fn of(&mut self, request: &Value) -> Option<StatusCode> {
        let says = |text: &str| {
            let mut texts = messages(request).iter().map(|message| &message["content"]);
            texts.any(|content| {
                content
                    .as_str()
                    .is_some_and(|content| content.contains(text))
            })
        };
        let mut rules = self.rules.iter_mut();
        let rule = rules.find(|rule| rule.times > 0 && says(&rule.text))?;
        rule.times -= 1;
        self.refused += 1;
        Some(rule.status)
    }
}

fn refusal(status: StatusCode) -> Response {
    let error =
        json!({ "error": { "message": "refused", "type": "stub", "param": null, "code": null } });
    (status, Json(error)).into_response()
}

fn messages(request: &Value) -> &[Value] {
    let messages = request["messages"].as_array();
    messages.map_or(&[], Vec::as_slice)
}

fn stream_answer(request: &Value, pause: Duration) -> Response {
    let messages = messages(request);
    let question = messages.last().and_then(|last| last["content"].as_str());
    let answer = EchoModel::answer(question.unwrap_or_default(), messages.len());
    let words = answer
        .split_inclusive(' ')
        .map(|word| (json!({ "content": word }), None));
    let end = (json!({}), Some("stop"));
    let mut events: VecDeque<String> = words
        .chain([end])
        .map(|(delta, finish_reason)| {
            let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish_reason });
            json!({
                "id": "1", "object": "chat.completion.chunk", "created": 1_795_860_000,
                "model": "echo", "choices": [choice],
            })
            .to_string()
        })
        .collect();
    events.push_back(String::from("[DONE]"));
    let events = stream::unfold(events, move |mut events| async move {
        let event = events.pop_front()?;
        tokio::time::sleep(pause).await;
        Some((
            Ok::<_, std::convert::Infallible>(Event::default().data(event)),
            events,
        ))
    });
    Sse::new(events).into_response()
}

async fn serve(app: Router, port: u16) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}
