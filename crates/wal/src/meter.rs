//! Numbers about the store's operation: kept here and, with the feature `metrics`, given to the
//! process's recorder as well.
//!
//! No protocol depends on them: numbers that change together are not read in one step. So their
//! atomics are not the model's, which would explore every order of them.

#[cfg(feature = "metrics")]
mod facade;
#[cfg(not(feature = "metrics"))]
mod nowhere;

#[cfg(feature = "metrics")]
use self::facade as exported;
#[cfg(not(feature = "metrics"))]
use self::nowhere as exported;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::histogram::{Histogram, Recorder};

/// The unit of a number. Times are kept in nanoseconds, and exported in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Bytes,
    Seconds,
}

/// The exported name and description of a number.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "nobody is told"))]
pub struct Metric {
    pub name: &'static str,
    /// Distinguishes it from others of the same name.
    pub reason: Option<&'static str>,
    pub(crate) unit: Unit,
    /// A description for people.
    pub about: &'static str,
}

impl Metric {
    pub const fn of(name: &'static str, unit: Unit, about: &'static str) -> Self {
        Self {
            name,
            reason: None,
            unit,
            about,
        }
    }

    /// The same, with this reason only.
    pub const fn because(self, reason: &'static str) -> Self {
        Self {
            reason: Some(reason),
            ..self
        }
    }
}

/// Makes numbers, and exports them under the name of a directory.
#[derive(Debug)]
pub struct Meters(exported::Exporter);

impl Meters {
    /// For the store of a directory. Exported numbers go to the recorder that the process has now.
    pub fn of(dir: &Path) -> Self {
        Self(exported::Exporter::of(dir))
    }

    /// Without an export.
    pub fn silent() -> Self {
        Self(exported::Exporter::none())
    }

    pub fn count(&self, metric: Metric) -> Count {
        Count {
            value: AtomicU64::new(0),
            exported: self.0.counter(&metric),
        }
    }

    pub fn level(&self, metric: Metric) -> Level {
        Level {
            value: AtomicU64::new(0),
            exported: self.0.gauge(&metric),
        }
    }

    pub fn measure(&self, metric: Metric) -> Measure {
        Measure {
            recorder: Recorder::default(),
            exported: self.0.histogram(&metric),
        }
    }
}

/// A number that grows.
#[derive(Debug)]
pub struct Count {
    value: AtomicU64,
    exported: exported::Counter,
}

impl Count {
    pub fn add(&self, by: u64) {
        self.value.fetch_add(by, Ordering::Relaxed);
        self.exported.increment(by);
    }

    pub fn read(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug)]
pub struct Level {
    value: AtomicU64,
    exported: exported::Gauge,
}

impl Level {
    pub fn set(&self, to: u64) {
        self.value.store(to, Ordering::Relaxed);
        self.exported.set(to);
    }

    pub fn rise(&self) {
        let was = self.value.fetch_add(1, Ordering::Relaxed);
        self.exported.set(was.wrapping_add(1));
    }

    pub fn fall(&self) {
        let was = self.value.fetch_sub(1, Ordering::Relaxed);
        self.exported.set(was.wrapping_sub(1));
    }

    pub fn read(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// Recorded sizes.
#[derive(Debug)]
pub struct Measure {
    recorder: Recorder,
    exported: exported::Sizes,
}

impl Measure {
    pub fn record(&self, size: u64) {
        self.recorder.record(size);
        self.exported.record(size);
    }

    pub fn record_time(&self, time: Duration) {
        self.record(nanos(time));
    }

    /// See [`Recorder::record_alone`].
    pub(crate) fn record_alone(&self, size: u64) {
        self.recorder.record_alone(size);
        self.exported.record(size);
    }

    /// See [`Recorder::record_alone`].
    pub fn record_time_alone(&self, time: Duration) {
        self.record_alone(nanos(time));
    }

    pub fn read(&self) -> Histogram {
        self.recorder.read()
    }
}

pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
