//! A store belongs to the process that opened it: a forked one has its memory, without the
//! threads that answer.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::errors;

/// Threads that read files for event loops, of all stores together. They end when idle.
const READERS: usize = 4;

/// A value that only the process which made it may use or drop: in a forked one, its locks
/// may be held by threads that are not there.
#[derive(Debug)]
pub(crate) struct Owned<T> {
    process: u32,
    value: Option<T>,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            process: std::process::id(),
            value: Some(value),
        }
    }

    pub(crate) fn get(&self) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.process == std::process::id() => Ok(value),
            _ => Err(errors::forked(self.process)),
        }
    }

    pub(crate) fn get_mut(&mut self) -> PyResult<&mut T> {
        let process = self.process;
        match &mut self.value {
            Some(value) if process == std::process::id() => Ok(value),
            _ => Err(errors::forked(process)),
        }
    }

    pub(crate) fn into_inner(mut self) -> PyResult<T> {
        self.get()?;
        let process = self.process;
        self.value.take().ok_or_else(|| errors::forked(process))
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}

/// The runtime whose blocking pool the reads of this process run on. Nothing else runs there.
pub(crate) fn readers() -> PyResult<Handle> {
    static RUNTIME: Mutex<Option<Owned<Arc<Runtime>>>> = Mutex::new(None);
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*runtime
        && let Ok(runtime) = runtime.get()
    {
        return Ok(runtime.handle().clone());
    }
    let new = Builder::new_current_thread()
        .max_blocking_threads(READERS)
        .thread_name("sessionlog-read")
        .build()?;
    let handle = new.handle().clone();
    *runtime = Some(Owned::new(Arc::new(new)));
    Ok(handle)
}
