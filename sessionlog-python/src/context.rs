//! A conversation: of a session, or of a file of kimi-cli's.

use std::path::PathBuf;

use pyo3::prelude::*;
use sessionlog::{CheckpointId, Message};

use crate::arguments;
use crate::call::{Call, plain};
use crate::errors::raise;
use crate::process::Owned;

/// A conversation.
#[pyclass(frozen)]
pub(crate) struct Context {
    inner: Owned<sessionlog::Context>,
    syncs_in_poll: bool,
    is_file: bool,
}

impl Context {
    pub(crate) fn new(context: sessionlog::Context, syncs_in_poll: bool) -> Self {
        Self {
            inner: Owned::new(context),
            syncs_in_poll,
            is_file: false,
        }
    }

    fn write(&self, call: Call) -> Call {
        call.may_sync(self.syncs_in_poll)
    }
}

#[pymethods]
impl Context {
    /// Opens the conversation of a single file, and reads it.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let context = py.detach(|| sessionlog::Context::open(path));
        Ok(Self {
            inner: Owned::new(context.map_err(|error| raise(&error))?),
            syncs_in_poll: false,
            is_file: true,
        })
    }

    fn restore(&self) -> PyResult<Call> {
        Ok(Call::plain(self.inner.get()?.restore()))
    }

    fn append(&self, messages: Vec<Vec<u8>>) -> PyResult<Call> {
        let messages = if self.is_file {
            let messages = messages.iter().map(|text| Message::from_kimi_json(text));
            messages
                .collect::<sessionlog::Result<_>>()
                .map_err(|error| raise(&error))?
        } else {
            arguments::messages(&messages)?
        };
        Ok(self.write(Call::done(self.inner.get()?.append_message(messages))))
    }

    fn update_token_count(&self, tokens: i64) -> PyResult<Call> {
        Ok(self.write(Call::done(self.inner.get()?.update_token_count(tokens))))
    }

    fn checkpoint(&self, add_user_message: bool) -> PyResult<Call> {
        let reply = self.inner.get()?.checkpoint(add_user_message);
        Ok(self.write(Call::of(reply, |py, id| plain(py, id.number()))))
    }

    fn revert_to(&self, id: i64) -> PyResult<Call> {
        let reply = self.inner.get()?.revert_to(CheckpointId::new(id));
        Ok(self.write(Call::done(reply)))
    }

    fn clear(&self) -> PyResult<Call> {
        Ok(self.write(Call::done(self.inner.get()?.clear())))
    }

    fn write_system_prompt(&self, prompt: &str) -> PyResult<Call> {
        Ok(self.write(Call::done(self.inner.get()?.write_system_prompt(prompt))))
    }

    /// The messages; of a file, as kimi-cli writes them.
    fn history(&self) -> PyResult<Call> {
        let reply = self.inner.get()?.history();
        if !self.is_file {
            return Ok(Call::messages(reply, false));
        }
        Ok(Call::of(reply, |py, messages| {
            let lines: Vec<String> = messages.iter().map(Message::to_kimi_json).collect();
            plain(py, lines)
        }))
    }

    fn token_count(&self) -> PyResult<Call> {
        Ok(Call::plain(self.inner.get()?.token_count()))
    }

    fn token_count_with_pending(&self) -> PyResult<Call> {
        Ok(Call::plain(self.inner.get()?.token_count_with_pending()))
    }

    fn n_checkpoints(&self) -> PyResult<Call> {
        Ok(Call::plain(self.inner.get()?.n_checkpoints()))
    }

    fn system_prompt(&self) -> PyResult<Call> {
        Ok(Call::plain(self.inner.get()?.system_prompt()))
    }

    fn usage_history(&self) -> PyResult<Call> {
        Ok(Call::plain(self.inner.get()?.usage_history()))
    }
}
