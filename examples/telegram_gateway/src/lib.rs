//! A Telegram gateway: `teloxide` brings the messages, a model behind `async-openai` answers
//! them, and the store keeps both.
//!
//! - [`intake`] stores a message before Telegram is told that it was received.
//! - [`gateway`] answers what is stored and has no answer yet.
//! - [`dialogues`] keeps the state of `teloxide`'s dialogues in sessions.
//! - [`model`] asks the model and collects the answer that it streams.
//! - [`local`] plays Telegram and the model on this computer.

pub mod dialogues;
pub mod gateway;
pub mod intake;
pub mod local;
pub mod model;
