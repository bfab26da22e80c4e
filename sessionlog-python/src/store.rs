//! A store, and its verbs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::value::RawValue;
use sessionlog::{
    Appended, ChangeFilter, ChangeKind, CheckpointId, Fork, Merged, Message, Position, Reply,
    RetentionPolicy, SessionPage, StoreHandle, Version, Window,
};

use crate::arguments::{
    self, BudgetGiven, KeepGiven, SearchGiven, SessionsGiven, UpdateGiven, parsed, parsed_if,
};
use crate::call::Call;
use crate::context::Context;
use crate::errors::{invalid, raise};
use crate::json;
use crate::process::Owned;
use crate::snapshot::Snapshot;
use crate::stream::{Changes, Search};

/// A store that is open, and a handle to it.
#[pyclass(frozen)]
pub(crate) struct Store {
    /// `None` once it is closed.
    inner: Arc<Owned<Mutex<Option<sessionlog::Store>>>>,
    handle: Owned<StoreHandle>,
    syncs_in_poll: bool,
    recovery: String,
}

impl Store {
    fn with(&self, handle: StoreHandle) -> Self {
        Self {
            inner: self.inner.clone(),
            handle: Owned::new(handle),
            syncs_in_poll: self.syncs_in_poll,
            recovery: self.recovery.clone(),
        }
    }

    /// A call that changes a session, and gives its version.
    fn changed(&self, reply: Reply<Version>) -> Call {
        self.write(Call::of(reply, |py, version| {
            crate::call::plain(py, version.to_string())
        }))
    }

    /// A call that writes.
    fn write(&self, call: Call) -> Call {
        call.may_sync(self.syncs_in_poll)
    }
}

#[pymethods]
impl Store {
    /// Opens a directory. It blocks while what a crash left is recovered.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        read_only: bool,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let options = arguments::options(given)?;
        let syncs_in_poll = options.get_sync_in_poll();
        let opened = py.detach(|| {
            if read_only {
                sessionlog::Store::open_read_only(path)
            } else {
                sessionlog::Store::open_with(path, options)
            }
        });
        let store = opened.map_err(|error| raise(&error))?;
        let report = store.recovery_report();
        let recovery = serde_json::json!({
            "clean": report.clean,
            "sessions": report.sessions,
            "replayed_records": report.replayed_records,
            "torn_bytes": report.torn_bytes,
            "findings": report.findings,
        });
        Ok(Self {
            handle: Owned::new(store.handle()),
            inner: Arc::new(Owned::new(Mutex::new(Some(store)))),
            syncs_in_poll,
            recovery: recovery.to_string(),
        })
    }

    /// What opening found, as JSON text.
    fn recovery(&self) -> &str {
        &self.recovery
    }

    fn with_durability(&self, level: &str) -> PyResult<Self> {
        let level = arguments::durability(level)?;
        Ok(self.with(self.handle.get()?.with_durability(level)))
    }

    fn exact_keys(&self) -> PyResult<Self> {
        Ok(self.with(self.handle.get()?.exact_keys()))
    }

    fn close(&self) -> PyResult<Call> {
        self.inner.get()?;
        let store = self.inner.clone();
        let close = move || {
            let taken = store
                .get()
                .ok()
                .and_then(|store| store.lock().unwrap_or_else(PoisonError::into_inner).take());
            taken.map_or(Ok(()), sessionlog::Store::close)
        };
        Ok(Call::work(close, |py, ()| Ok(py.None())))
    }

    fn append(&self, key: &str, messages: Vec<Vec<u8>>) -> PyResult<Call> {
        let messages = arguments::messages(&messages)?;
        Ok(self.write(Call::done(self.handle.get()?.append_all(key, messages))))
    }

    fn append_once(&self, key: &str, id: &str, messages: Vec<Vec<u8>>) -> PyResult<Call> {
        let messages = arguments::messages(&messages)?;
        let reply = self.handle.get()?.append_once(key, id, messages);
        Ok(self.write(Call::of(reply, |py, appended| {
            let (is_new, version) = match appended {
                Appended::New(version) => (true, version),
                Appended::Duplicate(version) => (false, version),
            };
            crate::call::plain(py, (is_new, version.to_string()))
        })))
    }

    fn update(&self, key: &str, given: UpdateGiven) -> PyResult<Call> {
        let update = given.to_update()?;
        Ok(self.changed(self.handle.get()?.update(key, update)))
    }

    fn edit(&self, key: &str, at: &str, message: Vec<u8>) -> PyResult<Call> {
        let message = Message::from_json(&message).map_err(|error| raise(&error))?;
        let reply = self.handle.get()?.edit(key, position(at)?, message);
        Ok(self.changed(reply))
    }

    fn remove(&self, key: &str, at: &str) -> PyResult<Call> {
        Ok(self.changed(self.handle.get()?.remove(key, position(at)?)))
    }

    /// Whether the session took the history of an alias over.
    fn ensure_metadata(
        &self,
        key: &str,
        scope: Option<&str>,
        aliases: Vec<String>,
    ) -> PyResult<Call> {
        let scope = scope.map(|scope| RawValue::from_string(scope.to_owned()));
        let scope = scope
            .transpose()
            .map_err(|error| invalid(&error.to_string()))?;
        let reply = self
            .handle
            .get()?
            .ensure_session_metadata(key, scope, aliases);
        Ok(self.write(Call::plain(reply)))
    }

    fn set_history(&self, key: &str, messages: Vec<Vec<u8>>) -> PyResult<Call> {
        let messages = arguments::messages(&messages)?;
        Ok(self.write(Call::done(self.handle.get()?.set_history(key, messages))))
    }

    fn set_history_at(&self, key: &str, expect: &str, messages: Vec<Vec<u8>>) -> PyResult<Call> {
        let expect = parsed(expect, "version")?;
        let messages = arguments::messages(&messages)?;
        let reply = self.handle.get()?.set_history_at(key, expect, messages);
        Ok(self.changed(reply))
    }

    fn set_summary(&self, key: &str, summary: &str) -> PyResult<Call> {
        Ok(self.write(Call::done(self.handle.get()?.set_summary(key, summary))))
    }

    fn truncate(&self, key: &str, keep: KeepGiven) -> PyResult<Call> {
        let keep = keep.to_keep()?;
        Ok(self.write(Call::done(self.handle.get()?.truncate_to(key, keep))))
    }

    fn delete(&self, key: &str) -> PyResult<Call> {
        Ok(self.write(Call::done(self.handle.get()?.delete_session(key))))
    }

    /// The key that it has.
    fn undelete(&self, key: &str) -> PyResult<Call> {
        let reply = self.handle.get()?.undelete(key);
        Ok(self.write(Call::plain(reply)))
    }

    /// The keys that they had.
    fn empty_trash(&self, older_than: Option<f64>) -> PyResult<Call> {
        let mut policy = RetentionPolicy::new();
        if let Some(seconds) = older_than {
            policy = policy.deleted(arguments::span(seconds)?);
        }
        let reply = self.handle.get()?.retention(policy).apply();
        Ok(self.write(Call::of(reply, |py, report| {
            let deleted = report.deleted.into_iter();
            let deletions = deleted.filter_map(|gone| gone.session.deleted);
            let keys: Vec<String> = deletions.map(|deletion| deletion.key).collect();
            crate::call::plain(py, keys)
        })))
    }

    fn compact(&self, key: &str) -> PyResult<Call> {
        Ok(self.write(Call::done(self.handle.get()?.compact(key))))
    }

    fn flush(&self) -> PyResult<Call> {
        Ok(self.write(Call::done(self.handle.get()?.flush())))
    }

    fn history(&self, key: &str, raw: bool) -> PyResult<Call> {
        Ok(Call::messages(self.handle.get()?.history(key), raw))
    }

    fn tail(&self, key: &str, n: usize, raw: bool) -> PyResult<Call> {
        Ok(Call::messages(self.handle.get()?.tail(key, n), raw))
    }

    fn window(&self, key: &str, budget: BudgetGiven) -> PyResult<Call> {
        let reply = self.handle.get()?.window(key, budget.to_budget()?);
        Ok(Call::of(reply, |py, window| window_to_python(py, &window)))
    }

    fn snapshot(&self, key: &str) -> PyResult<Call> {
        let reply = self.handle.get()?.snapshot(key);
        Ok(Call::of(reply, |py, snapshot| {
            Ok(Py::new(py, Snapshot::new(snapshot))?.into_any())
        }))
    }

    fn count(&self, key: &str) -> PyResult<Call> {
        Ok(Call::plain(self.handle.get()?.count(key)))
    }

    fn exists(&self, key: &str) -> PyResult<Call> {
        Ok(Call::plain(self.handle.get()?.exists(key)))
    }

    fn resolve(&self, key: &str) -> PyResult<Call> {
        Ok(Call::plain(self.handle.get()?.resolve_session_key(key)))
    }

    fn meta(&self, key: &str) -> PyResult<Call> {
        Ok(Call::of(
            self.handle.get()?.session_meta(key),
            |py, meta| json::decode(py, &json::encode(&meta)?),
        ))
    }

    fn summary(&self, key: &str) -> PyResult<Call> {
        Ok(Call::plain(self.handle.get()?.summary(key)))
    }

    fn status(&self) -> PyResult<Call> {
        Ok(Call::of(self.handle.get()?.status(), |py, status| {
            json::decode(py, &json::encode(&status)?)
        }))
    }

    /// One page of sessions, as JSON; `after` is the `next` of the page before.
    fn sessions(&self, query: SessionsGiven, limit: usize, after: Option<&str>) -> PyResult<Call> {
        let mut query = query.to_query()?.limit(limit);
        if let Some(after) = after {
            let cursor = serde_json::from_str(after);
            query = query.after(cursor.map_err(|error| invalid(&error.to_string()))?);
        }
        let reply = self.handle.get()?.sessions(query);
        Ok(Call::of(reply, |py, page: SessionPage| {
            let next = page.next.as_ref().map(json::encode).transpose()?;
            let next = next.map(|next| String::from_utf8_lossy(&next).into_owned());
            let sessions = json::decode(py, &json::encode(&page.sessions)?)?;
            crate::call::plain(py, (sessions, page.unreadable, next))
        }))
    }

    fn search(&self, query: SearchGiven) -> PyResult<Search> {
        Ok(Search::new(self.handle.get()?.search(query.to_query()?)))
    }

    fn changes(&self, prefix: &str, agent: Option<&str>, after: Option<&str>) -> PyResult<Changes> {
        let mut filter = ChangeFilter::new().prefix(prefix);
        if let Some(agent) = agent {
            filter = filter.agent(agent);
        }
        if let Some(version) = parsed_if(after, "version")? {
            filter = filter.after(version);
        }
        Ok(Changes::new(self.handle.get()?.changes(filter)))
    }

    fn context(&self, key: &str) -> PyResult<Context> {
        let context = self.handle.get()?.context(key);
        Ok(Context::new(context, self.syncs_in_poll))
    }

    fn checkpoints(&self, key: &str) -> PyResult<Call> {
        let reply = self.handle.get()?.checkpoints(key);
        Ok(Call::of(reply, |py, ids: Vec<CheckpointId>| {
            let ids: Vec<i64> = ids.into_iter().map(CheckpointId::number).collect();
            crate::call::plain(py, ids)
        }))
    }

    fn fork(
        &self,
        key: &str,
        new_key: &str,
        checkpoint: Option<i64>,
        messages: Option<u64>,
    ) -> PyResult<Call> {
        let at = match (checkpoint, messages) {
            (None, None) => Fork::End,
            (Some(id), None) => Fork::Checkpoint(CheckpointId::new(id)),
            (None, Some(messages)) => Fork::Message(messages),
            (Some(_), Some(_)) => {
                return Err(invalid(
                    "a fork ends at a checkpoint or after messages, not both",
                ));
            }
        };
        let reply = self.handle.get()?.fork_session(key, new_key, at);
        Ok(self.write(Call::done(reply)))
    }

    fn rename(&self, key: &str, new_key: &str) -> PyResult<Call> {
        let reply = self.handle.get()?.rename_session(key, new_key);
        Ok(self.write(Call::done(reply)))
    }

    /// Whether there were messages under the new key.
    fn merge(&self, key: &str, new_key: &str) -> PyResult<Call> {
        let reply = self.handle.get()?.merge_session(key, new_key);
        Ok(self.write(Call::of(reply, |py, merged| {
            crate::call::plain(py, merged == Merged::Joined)
        })))
    }

    fn erase(
        &self,
        key: Option<String>,
        person: Option<String>,
        chat: Option<String>,
        channel: Option<String>,
    ) -> PyResult<Call> {
        let what = arguments::erase(key, person, chat, channel)?;
        Ok(Call::of(self.handle.get()?.erase(what), |py, receipt| {
            let is_complete = receipt.is_complete();
            let receipt = json::decode(py, &json::encode(&receipt)?)?;
            receipt.bind(py).set_item("is_complete", is_complete)?;
            Ok(receipt)
        }))
    }

    fn backup(&self, path: PathBuf) -> PyResult<Call> {
        Ok(Call::of(
            self.handle.get()?.backup_to(path),
            |py, report| json::decode(py, &json::encode(&report)?),
        ))
    }

    /// Number, time, size and reason of each.
    fn backups(&self, key: &str) -> PyResult<Call> {
        let reply = self.handle.get()?.list_backups(key);
        Ok(Call::of(reply, |py, backups| {
            let backups: Vec<_> = backups
                .into_iter()
                .map(|backup| (backup.number, backup.created_at, backup.size))
                .collect();
            crate::call::plain(py, backups)
        }))
    }

    fn restore_backup(&self, key: &str, number: u64) -> PyResult<Call> {
        let reply = self.handle.get()?.restore_backup(key, number);
        Ok(self.write(Call::done(reply)))
    }

    fn export(&self, key: &str, format: &str, unpaired: &str) -> PyResult<Call> {
        let options = arguments::export(format, unpaired)?;
        Ok(Call::of(
            self.handle.get()?.export(key, options),
            |py, export| crate::call::plain(py, arguments::exported(&export)),
        ))
    }
}

/// The names of a window's parts, and what they are.
fn window_to_python(py: Python<'_>, window: &Window) -> PyResult<Py<PyAny>> {
    let parts = PyDict::new(py);
    parts.set_item(
        "messages",
        json::Messages::new(&window.messages, false).to_python(py)?,
    )?;
    parts.set_item("start", window.start.to_string())?;
    parts.set_item("omitted", window.omitted)?;
    parts.set_item("is_partial", window.is_partial)?;
    parts.set_item("summary", &window.summary)?;
    parts.set_item("system_prompt", &window.system_prompt)?;
    parts.set_item("tokens", window.tokens)?;
    let took = PyDict::new(py);
    for (kind, tokens) in [
        ("text", window.took.text),
        ("images", window.took.images),
        ("audio", window.took.audio),
        ("video", window.took.video),
        ("files", window.took.files),
        ("reasoning", window.took.reasoning),
        ("calls", window.took.calls),
        ("messages", window.took.messages),
    ] {
        took.set_item(kind, tokens)?;
    }
    parts.set_item("took", took)?;
    parts.set_item("version", window.version.to_string())?;
    Ok(parts.into_any().unbind())
}

/// A position that Python was given.
pub(crate) fn position(text: &str) -> PyResult<Position> {
    parsed(text, "position")
}

/// How Python names a kind of change.
pub(crate) fn change_kind(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Appended => "appended",
        ChangeKind::Truncated => "truncated",
        ChangeKind::Replaced => "replaced",
        ChangeKind::Deleted => "deleted",
        // The kinds to come, too.
        _ => "updated",
    }
}
