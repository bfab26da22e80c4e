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
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

/// The exported name and description of a number.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "nobody is told"))]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// Distinguishes it from others of the same name.
    pub reason: Option<&'static str>,
    pub(crate) unit: Unit,
    /// A description for people.
    pub about: &'static str,
}

impl Metric {
    /// A number without a reason.
    #[must_use]
    pub const fn of(name: &'static str, unit: Unit, about: &'static str) -> Self {
        Self {
            name,
            reason: None,
            unit,
            about,
        }
    }

    /// The same, with this reason only.
    #[must_use]
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
    #[must_use]
    pub fn of(dir: &Path) -> Self {
        Self(exported::Exporter::of(dir))
    }

    /// Without an export.
    #[must_use]
    pub fn silent() -> Self {
        Self(exported::Exporter::none())
    }

    /// Makes a number that grows.
    #[must_use]
    pub fn count(&self, metric: Metric) -> Count {
        Count {
            value: AtomicU64::new(0),
            exported: self.0.counter(&metric),
        }
    }

    /// Makes a number that goes up and down.
    #[must_use]
    pub fn level(&self, metric: Metric) -> Level {
        Level {
            value: AtomicU64::new(0),
            exported: self.0.gauge(&metric),
        }
    }

    /// Makes a histogram.
    #[must_use]
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
    /// Adds `by`.
    pub fn add(&self, by: u64) {
        self.value.fetch_add(by, Ordering::Relaxed);
        self.exported.increment(by);
    }

    /// Returns the number.
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
    /// Sets it.
    pub fn set(&self, to: u64) {
        self.value.store(to, Ordering::Relaxed);
        self.exported.set(to);
    }

    /// Adds one.
    pub fn rise(&self) {
        let was = self.value.fetch_add(1, Ordering::Relaxed);
        self.exported.set(was.wrapping_add(1));
    }

    /// Takes one away.
    pub fn fall(&self) {
        let was = self.value.fetch_sub(1, Ordering::Relaxed);
        self.exported.set(was.wrapping_sub(1));
    }

    /// Returns the number.
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
    /// Records a size.
    pub fn record(&self, size: u64) {
        self.recorder.record(size);
        self.exported.record(size);
    }

    /// Records a duration.
    pub fn record_time(&self, time: Duration) {
        self.record(nanos(time));
    }

    /// See [`Recorder::record_alone`].
    pub(crate) fn record_alone(&self, size: u64) {
        self.recorder.record_alone(size);
        self.exported.record(size);
    }

    /// Records a duration without a locked instruction, for a number that one thread at a time
    /// records.
    pub fn record_time_alone(&self, time: Duration) {
        self.record_alone(nanos(time));
    }

    /// Returns everything recorded.
    pub fn read(&self) -> Histogram {
        self.recorder.read()
    }
}

/// Nanoseconds; `u64::MAX` if they are more.
#[must_use]
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
