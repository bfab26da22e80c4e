//! The crate `metrics`: the process's recorder gets every number.

use std::path::Path;

use metrics::{Label, SharedString};

use super::{Metric, Unit};

/// The destination of exported numbers.
#[derive(Debug)]
pub(super) struct Exporter {
    /// The directory; `None` to export nothing.
    dir: Option<SharedString>,
}

impl Exporter {
    pub(super) fn of(dir: &Path) -> Self {
        let dir = dir.to_string_lossy().into_owned();
        Self {
            dir: Some(dir.into()),
        }
    }

    pub(super) fn none() -> Self {
        Self { dir: None }
    }

    /// Registered once: a handle is an atomic of the recorder's, and needs no look-up.
    pub(super) fn counter(&self, metric: &Metric) -> Counter {
        let Some(labels) = self.labels(metric) else {
            return Counter(metrics::Counter::noop());
        };
        metrics::describe_counter!(metric.name, unit(metric), metric.about);
        Counter(metrics::counter!(metric.name, labels))
    }

    pub(super) fn gauge(&self, metric: &Metric) -> Gauge {
        let Some(labels) = self.labels(metric) else {
            let gauge = metrics::Gauge::noop();
            return Gauge { gauge, scale: 1.0 };
        };
        metrics::describe_gauge!(metric.name, unit(metric), metric.about);
        Gauge {
            gauge: metrics::gauge!(metric.name, labels),
            scale: scale(metric),
        }
    }

    pub(super) fn histogram(&self, metric: &Metric) -> Sizes {
        let scale = scale(metric);
        let Some(labels) = self.labels(metric) else {
            let histogram = metrics::Histogram::noop();
            return Sizes { histogram, scale };
        };
        metrics::describe_histogram!(metric.name, unit(metric), metric.about);
        Sizes {
            histogram: metrics::histogram!(metric.name, labels),
            scale,
        }
    }

    fn labels(&self, metric: &Metric) -> Option<Vec<Label>> {
        let mut labels = vec![Label::new("dir", self.dir.clone()?)];
        labels.extend(
            metric
                .reason
                .map(|why| Label::from_static_parts("reason", why)),
        );
        Some(labels)
    }
}

/// The number of internal units per exported unit.
fn scale(metric: &Metric) -> f64 {
    match metric.unit {
        Unit::Count | Unit::Bytes => 1.0,
        Unit::Seconds => 1e9,
    }
}

fn unit(metric: &Metric) -> metrics::Unit {
    match metric.unit {
        Unit::Count => metrics::Unit::Count,
        Unit::Bytes => metrics::Unit::Bytes,
        Unit::Seconds => metrics::Unit::Seconds,
    }
}

#[derive(Debug)]
pub(super) struct Counter(metrics::Counter);

impl Counter {
    pub(super) fn increment(&self, by: u64) {
        self.0.increment(by);
    }
}

#[derive(Debug)]
pub(super) struct Gauge {
    gauge: metrics::Gauge,
    scale: f64,
}

impl Gauge {
    #[expect(clippy::cast_precision_loss, reason = "what is exported is a float")]
    pub(super) fn set(&self, to: u64) {
        self.gauge.set(to as f64 / self.scale);
    }
}

#[derive(Debug)]
pub(super) struct Sizes {
    histogram: metrics::Histogram,
    scale: f64,
}

impl Sizes {
    #[expect(clippy::cast_precision_loss, reason = "what is exported is a float")]
    pub(super) fn record(&self, size: u64) {
        self.histogram.record(size as f64 / self.scale);
    }
}
