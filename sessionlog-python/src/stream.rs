//! Changes and search hits, one after the other.
//!
//! A call for the next one that is given up (a timeout, a future dropped) loses nothing: what
//! it would have taken is the next call's.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pyo3::prelude::*;
use sessionlog::{Error, SearchHit};
use tokio::sync::Mutex;

use crate::call::{Call, Made, plain};
use crate::errors::raise;
use crate::json;
use crate::process::Owned;
use crate::store::change_kind;

/// So many hits come to Python at once, if they are there.
const HITS: usize = 256;

/// The changes of sessions.
#[pyclass(frozen)]
pub(crate) struct Changes {
    changes: Owned<Arc<Mutex<sessionlog::Changes>>>,
}

impl Changes {
    pub(crate) fn new(changes: sessionlog::Changes) -> Self {
        Self {
            changes: Owned::new(Arc::new(Mutex::new(changes))),
        }
    }
}

#[pymethods]
impl Changes {
    /// Key, version and kind of the next change.
    fn next(&self) -> PyResult<Call> {
        let changes = self.changes.get()?.clone();
        Ok(Call::next(async move {
            let change = changes
                .lock()
                .await
                .next()
                .await
                .map_err(|error| raise(&error))?;
            let kind = change_kind(change.kind);
            let made =
                move |py: Python<'_>| plain(py, (change.key, change.version.to_string(), kind));
            Ok(Box::new(made) as Made)
        }))
    }
}

struct Finding {
    search: sessionlog::Search,
    /// What was found after hits that had to be given first.
    failure: Option<Error>,
}

impl Finding {
    /// The next hits, as many as are there; none at the end.
    async fn next(&mut self) -> Result<Vec<SearchHit>, Error> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let Some(first) = self.search.next().await else {
            return Ok(Vec::new());
        };
        let mut hits = vec![first?];
        while hits.len() < HITS {
            let next = pin!(self.search.next());
            match next.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(hit))) => hits.push(hit),
                Poll::Ready(Some(Err(failure))) => {
                    self.failure = Some(failure);
                    break;
                }
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        Ok(hits)
    }
}

/// The messages that a search finds.
#[pyclass(frozen)]
pub(crate) struct Search {
    finding: Owned<Arc<Mutex<Finding>>>,
}

impl Search {
    pub(crate) fn new(search: sessionlog::Search) -> Self {
        let finding = Finding {
            search,
            failure: None,
        };
        Self {
            finding: Owned::new(Arc::new(Mutex::new(finding))),
        }
    }
}

#[pymethods]
impl Search {
    /// The next hits with their excerpts; none at the end.
    fn next(&self) -> PyResult<Call> {
        let finding = self.finding.get()?.clone();
        Ok(Call::next(async move {
            let hits = finding
                .lock()
                .await
                .next()
                .await
                .map_err(|error| raise(&error))?;
            let excerpts: Vec<String> = hits.iter().map(|hit| hit.excerpt(40)).collect();
            let hits = json::encode(&hits)?;
            let made = move |py: Python<'_>| plain(py, (json::decode(py, &hits)?, excerpts));
            Ok(Box::new(made) as Made)
        }))
    }
}
