//! Errors as Python raises them: the classes of `sessionlog.errors`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use sessionlog::{Error, ErrorKind};

/// The exception for an error of the store.
pub(crate) fn raise(error: &Error) -> PyErr {
    let class = match error {
        Error::VersionConflict { .. } => "VersionConflict",
        Error::ChangesMissed { .. } => "ChangesMissed",
        Error::CheckpointNotFound { .. } => "CheckpointNotFound",
        Error::Locked { .. } => "Locked",
        Error::SessionExists { .. } => "SessionExists",
        Error::SessionNotFound { .. } => "SessionNotFound",
        _ => match error.kind() {
            ErrorKind::InvalidInput => "InvalidInput",
            ErrorKind::NotFound => "NotFound",
            ErrorKind::Conflict => "Conflict",
            ErrorKind::Busy => "Busy",
            ErrorKind::StorageFull => "StorageFull",
            ErrorKind::ReadOnly => "ReadOnly",
            ErrorKind::Unsupported => "Unsupported",
            ErrorKind::Closed => "Closed",
            ErrorKind::Poisoned => "Poisoned",
            ErrorKind::Corrupt => "Corrupt",
            // The kinds to come, too.
            _ => "Io",
        },
    };
    make(class, &error.to_string(), error.is_retryable())
}

/// The exception for a value that the store would not understand.
pub(crate) fn invalid(what: &str) -> PyErr {
    make("InvalidInput", what, false)
}

/// The exception for a store that another process opened.
pub(crate) fn forked(opened_by: u32) -> PyErr {
    let now = std::process::id();
    let what = format!(
        "process {opened_by} opened this store, and this one ({now}) was forked from it: open \
         stores after forking, or start processes with the method spawn"
    );
    make("Forked", &what, false)
}

fn make(class: &str, what: &str, is_retryable: bool) -> PyErr {
    Python::attach(|py| {
        let exception = || -> PyResult<PyErr> {
            let details = PyDict::new(py);
            details.set_item("retryable", is_retryable)?;
            let class = module(py)?.getattr(class)?;
            Ok(PyErr::from_value(class.call((what,), Some(&details))?))
        };
        // What a signal's handler raised meanwhile, as Ctrl-C does, must not be lost.
        exception().unwrap_or_else(|error| error)
    })
}

fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static MODULE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let import = || Ok::<_, PyErr>(py.import("sessionlog.errors")?.into_any().unbind());
    Ok(MODULE.get_or_try_init(py, import)?.bind(py))
}
