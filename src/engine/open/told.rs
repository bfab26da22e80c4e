//! Logs an opening. No session is named: the findings, which may name some, are the caller's to
//! log.

use std::time::Duration;

use sessionlog_core::error::Error;
use sessionlog_wal::meter::nanos;

use super::{OpenedStore, Site};
use crate::engine::recovery::RecoveryReport;
use crate::engine::stats::Counters;

/// Logs that the journal is carried out, if it held anything.
pub(super) fn recovered(report: &RecoveryReport, counters: &Counters, took: Duration) {
    if report.clean {
        return;
    }
    counters.recoveries.add(1);
    counters.recovered_records.add(report.replayed_records);
    tracing::info!(
        records = report.replayed_records,
        torn_bytes = report.torn_bytes,
        conflicts = report.conflicts.len(),
        findings = report.findings.len(),
        ?took,
        "recovered what the last writer left"
    );
}

pub(super) fn opened(opened: &OpenedStore, took: Duration) {
    let counters = &opened.engine.shared.counters;
    counters.open_nanos.set(nanos(took));
    let report = &opened.report;
    tracing::info!(
        sessions = report.sessions,
        clean = report.clean,
        contested_aliases = report.contested_aliases,
        findings = report.findings.len(),
        ?took,
        "opened"
    );
}

/// Logs the reason of a failure: the caller is told, too.
pub(super) fn failed(site: &Site<'_>, error: &Error) {
    tracing::debug!(dir = %site.dir.display(), %error, "not opened");
}
