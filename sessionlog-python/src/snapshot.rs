//! One moment of a session.

use pyo3::prelude::*;
use sessionlog::SessionSnapshot;

use crate::call::{Call, plain};
use crate::json::{self, Messages};
use crate::process::Owned;
use crate::store::position;

/// One moment of a session.
#[pyclass(frozen)]
pub(crate) struct Snapshot {
    snapshot: Owned<SessionSnapshot>,
}

impl Snapshot {
    pub(crate) fn new(snapshot: SessionSnapshot) -> Self {
        Self {
            snapshot: Owned::new(snapshot),
        }
    }
}

#[pymethods]
impl Snapshot {
    #[getter]
    fn version(&self) -> PyResult<String> {
        Ok(self.snapshot.get()?.version().to_string())
    }

    #[getter]
    fn summary(&self) -> PyResult<&str> {
        Ok(self.snapshot.get()?.summary())
    }

    #[getter]
    fn start(&self) -> PyResult<String> {
        Ok(self.snapshot.get()?.start().to_string())
    }

    #[getter]
    fn end(&self) -> PyResult<String> {
        Ok(self.snapshot.get()?.end().to_string())
    }

    fn meta(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        json::decode(py, &json::encode(&self.snapshot.get()?.meta())?)
    }

    fn count(&self) -> PyResult<Call> {
        Ok(Call::plain(self.snapshot.get()?.count()))
    }

    fn history(&self, raw: bool) -> PyResult<Call> {
        Ok(Call::messages(self.snapshot.get()?.history(), raw))
    }

    fn tail(&self, n: usize, raw: bool) -> PyResult<Call> {
        Ok(Call::messages(self.snapshot.get()?.tail(n), raw))
    }

    /// The newest `n` messages before a position: they, where each begins, and whether none
    /// is before them.
    fn before(&self, at: &str, n: usize) -> PyResult<Call> {
        let reply = self.snapshot.get()?.before(position(at)?, n);
        Ok(Call::of(reply, |py, page| {
            let messages = Messages::new(&page.messages, false).to_python(py)?;
            let positions: Vec<String> = page.positions.iter().map(ToString::to_string).collect();
            plain(
                py,
                (messages, positions, page.start.to_string(), page.is_first),
            )
        }))
    }
}
