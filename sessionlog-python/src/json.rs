//! JSON text, and the objects that Python's own `json` makes of it.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList};
use serde::Serialize;
use sessionlog::Message;

use crate::errors;

/// `value` as JSON text.
pub(crate) fn encode(value: &impl Serialize) -> PyResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| errors::invalid(&error.to_string()))
}

/// Decodes JSON text as `json.loads` does.
pub(crate) fn decode(py: Python<'_>, json: &[u8]) -> PyResult<Py<PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let loads = LOADS.import(py, "json", "loads")?;
    // As a text: of bytes it would first guess the encoding.
    let text = String::from_utf8_lossy(json);
    Ok(loads.call1((&*text,))?.unbind())
}

/// Messages on their way to Python: encoded where the interpreter need not stand still.
#[derive(Debug)]
pub(crate) enum Messages {
    /// One JSON array, for dicts.
    Array(Vec<u8>),
    /// Each by itself, for those who take bytes.
    Each(Vec<Vec<u8>>),
}

impl Messages {
    pub(crate) fn new(messages: &[Message], is_raw: bool) -> Self {
        let mut each = messages.iter().map(Message::to_json);
        if is_raw {
            return Self::Each(each.collect());
        }
        let mut array = vec![b'['];
        if let Some(first) = each.next() {
            array.extend(first);
        }
        for text in each {
            array.push(b',');
            array.extend(text);
        }
        array.push(b']');
        Self::Array(array)
    }

    pub(crate) fn to_python(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Array(json) => decode(py, json),
            Self::Each(lines) => {
                let lines = lines.iter().map(|line| PyBytes::new(py, line));
                Ok(PyList::new(py, lines)?.into_any().unbind())
            }
        }
    }
}
