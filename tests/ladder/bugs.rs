//! The bugs: what is taken out of the crate or put into it, and who must notice.

use std::fmt;

/// A bug, by the text that becomes another.
#[derive(Debug)]
pub(crate) struct Bug {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    /// Stands exactly once in the file.
    pub(crate) original: &'static str,
    pub(crate) replacement: &'static str,
    /// Must fail with the bug, and pass without.
    pub(crate) rung: Rung,
}

/// A test, as arguments for `cargo test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rung {
    pub(crate) target: [&'static str; 2],
    pub(crate) filter: &'static str,
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, target] = self.target;
        write!(f, "{kind} {target} {}", self.filter)
    }
}

const fn test(target: &'static str, filter: &'static str) -> Rung {
    Rung {
        target: ["--test", target],
        filter,
    }
}

const CRASHES: Rung = test("crash", "no_crash_loses");
const OVERWRITES: Rung = test("crash", "no_durable_change");
const RECOVERY: Rung = test("crash", "no_crash_of_a_recovery");
const ERRORS: Rung = test("crash", "no_failing_call");
const EYES: Rung = test("crash", "other_programs");
const SIMULATION: Rung = test("simulation", "no_seed");
/// Of the crate itself.
const REDO: Rung = Rung {
    target: ["--lib", "--all-features"],
    filter: "what_the_journal_holds_is_synced",
};
const STALE: Rung = test("stale_records", "");
const DAMAGE: Rung = test("corruption", "no_damage_loses");
const REUSED: Rung = Rung {
    target: ["--lib", "--all-features"],
    filter: "a_segment_whose_sync_failed",
};
const BROKEN: Rung = Rung {
    target: ["--lib", "--all-features"],
    filter: "a_worker_that_panicked_settles_nothing",
};
const SMALL: Rung = test("full_disk", "a_small_volume");
const SPARES: Rung = Rung {
    target: ["--lib", "--all-features"],
    filter: "spares_make_room",
};
/// The modelled disk does not tell case apart there.
const FOLDING: Rung = test("it", "folding");
const SIDECARS: Rung = test("it", "bad_input::sidecars");
const FULL: Rung = test("full_disk", "a_shard_whose_lines");
const WAITING: Rung = test("it", "compacting");
const BESIDE: Rung = test("it", "beside_files");
const BACKUPS: Rung = test("it", "verbs::backups");
const IMPORTS: Rung = Rung {
    target: ["--lib", "--all-features"],
    filter: "a_run_after_a_crash_at_any_step",
};
/// Deeds of other programs after a crash.
const MATRIX: Rung = test("foreign", "what_another_program_does");
/// On real runtimes: tokio is below the models' seam.
const WAKING: Rung = Rung {
    target: ["--lib", "--all-features"],
    filter: "a_runtime_without_threads_of_its_own",
};
/// What reviewers of recovery found.
const REPORTED: Rung = test("foreign", "reported");
const PACING: Rung = test("it", "pacing");
const PROCESSES: Rung = test("process", "one_process");

/// Every one of them.
pub(crate) const BUGS: &[Bug] = &[
    Bug {
        name: "hand-over-to-a-runtime-that-nobody-runs",
        file: "src/ground/sync/wake.rs",
        original: "    runtime.runtime_flavor() != RuntimeFlavor::CurrentThread\n",
        replacement: "    let _ = (runtime, RuntimeFlavor::CurrentThread);\n    true\n",
        rung: WAKING,
    },
    Bug {
        name: "ack-before-sync",
        file: "src/disk/journal/committer.rs",
        original: r#"        if !batch.durable {
            signal_each(&batch.tickets, &Outcome::Written, tell);
        }
"#,
        replacement: r#"        signal_each(&batch.tickets, &Outcome::Synced, tell);
"#,
        rung: CRASHES,
    },
    Bug {
        name: "journal-not-synced",
        file: "src/disk/journal/syncing.rs",
        original: r#"        self.file.sync_data()"#,
        replacement: r#"        Ok(())"#,
        rung: CRASHES,
    },
    Bug {
        name: "full-segment-not-synced",
        file: "src/disk/journal/committer.rs",
        original: r#"        if self.has_unsynced() {
            // Not"#,
        replacement: r#"        if false {
            // Not"#,
        rung: CRASHES,
    },
    Bug {
        name: "watermark-too-early",
        file: "src/disk/journal/committer.rs",
        original: r#"durable: self.progress.synced(),"#,
        replacement: r#"durable: self.sequence,"#,
        rung: CRASHES,
    },
    Bug {
        name: "failed-journal-sync-retried",
        file: "src/disk/journal/syncing.rs",
        original: r#"        self.file.sync_data()"#,
        replacement: r#"        let file = &self.file;
        file.sync_data().or_else(|_| file.sync_data())"#,
        rung: ERRORS,
    },
    Bug {
        name: "records-behind-refused-ones-kept",
        file: "src/disk/journal/committer.rs",
        original: r#"let stale = |t: &Ticket| t.refusals < refusals[t.producer];"#,
        replacement: r#"let stale = |t: &Ticket| t.refusals < refusals[t.producer] && t.len == 0;"#,
        rung: SIMULATION,
    },
    Bug {
        name: "salt-not-checked",
        file: "src/disk/journal/segment.rs",
        original: r#"    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    hasher.finalize()
"#,
        replacement: r#"    let _ = (salt, number);
    0
"#,
        rung: STALE,
    },
    Bug {
        name: "segment-name-not-synced",
        file: "src/disk/journal/segment.rs",
        original: r#"    storage.sync_dir(dir).map_err(|e| Error::sync(dir, e))?;
    Ok(Segment {"#,
        replacement: r#"    Ok(Segment {"#,
        rung: CRASHES,
    },
    Bug {
        name: "segment-named-before-sync",
        file: "src/disk/journal/segment.rs",
        original: r#"        .and_then(|_| file.sync())
        .and_then(|()| storage.rename(path, &named))"#,
        replacement: r#"        .and_then(|_| storage.rename(path, &named))"#,
        rung: CRASHES,
    },
    Bug {
        name: "refused-batch-written-whole",
        file: "src/disk/journal/cursor.rs",
        original: r#"    while done < needed {"#,
        replacement: r#"    while done < needed.max(bytes.len()) {"#,
        rung: ERRORS,
    },
    Bug {
        name: "spare-used-before-its-old-name-is-gone",
        file: "src/disk/journal/pool.rs",
        original: r#"        self.sync_dir()?;
        self.state.lock().spares.append(&mut spares);"#,
        replacement: r#"        self.state.lock().spares.append(&mut spares);"#,
        rung: CRASHES,
    },
    Bug {
        name: "segments-retired-too-early",
        file: "src/disk/journal/pool.rs",
        original: r#"full.last_sequence <= sequence)"#,
        replacement: r#"full.last_sequence <= u64::MAX - sequence)"#,
        rung: SIMULATION,
    },
    Bug {
        name: "checksum-not-checked",
        file: "src/disk/journal/record.rs",
        original: r#"if stated != checksum(seed, bytes) {"#,
        replacement: r#"if stated != checksum(seed, bytes) && stated == 0 {"#,
        rung: CRASHES,
    },
    Bug {
        name: "checkpoint-before-files-are-synced",
        file: "src/engine/supervisor/mod.rs",
        original: r#"        self.sync_files().map_err(|error| self.poison(&error))?;
        self.unsynced.clear();"#,
        replacement: r#"        self.unsynced.clear();"#,
        rung: CRASHES,
    },
    Bug {
        name: "checkpoint-covers-a-batch-too-many",
        file: "src/engine/supervisor/mod.rs",
        original: r#"        Flush {
            upto,
            slots: slots"#,
        replacement: r#"        Flush {
            upto: upto + 1,
            slots: slots"#,
        rung: CRASHES,
    },
    Bug {
        name: "failed-file-sync-is-no-poison",
        file: "src/engine/supervisor/mod.rs",
        original: r#"        self.sync_files().map_err(|error| self.poison(&error))?;"#,
        replacement: r#"        self.sync_files()?;"#,
        rung: ERRORS,
    },
    Bug {
        name: "flush-leaves-names-unsynced",
        file: "src/engine/supervisor/mod.rs",
        original: r#"        if self.unsynced.is_empty() {
            return Ok(());
        }
        storage.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))"#,
        replacement: r#"        Ok(())"#,
        rung: CRASHES,
    },
    Bug {
        name: "flush-leaves-sidecars-unsynced",
        file: "src/engine/supervisor/mod.rs",
        original: r#"                files.push((path, kept.file()?));"#,
        replacement: r#"                drop((path, kept.file()?));"#,
        rung: CRASHES,
    },
    Bug {
        name: "flush-leaves-lines-unsynced",
        file: "src/engine/supervisor/mod.rs",
        original: r#"            if let Some(log) = &flushed.log {"#,
        replacement: r#"            if let Some(log) = flushed.log.as_ref().filter(|_| false) {"#,
        rung: CRASHES,
    },
    Bug {
        name: "flush-syncs-through-a-fresh-descriptor",
        file: "src/ground/storage/held.rs",
        original: r#"            Some((_, directory)) => Ok(directory.clone()),"#,
        replacement: r#"            Some((held, _)) => self.storage.open_dir(held),"#,
        rung: ERRORS,
    },
    Bug {
        name: "closed-log-taken-for-synced",
        file: "src/engine/shard/owed.rs",
        original: r#"        self.unheld |= self.dirty;"#,
        replacement: r#"        self.unheld |= false;"#,
        rung: ERRORS,
    },
    Bug {
        name: "sidecar-synced-through-its-last-descriptor",
        file: "src/engine/shard/owed.rs",
        original: r#"        if inode.is_some() && inode == known {"#,
        replacement: r#"        if inode.is_none() && inode == known {"#,
        rung: ERRORS,
    },
    Bug {
        name: "no-descriptor-poisons-the-store",
        file: "src/disk/journal/committer.rs",
        original: r#"            Err(passing) if passing.may_pass() => {"#,
        replacement: r#"            Err(passing @ Error::StorageFull { .. }) => {"#,
        rung: ERRORS,
    },
    Bug {
        name: "journal-takes-the-space-of-its-lines",
        file: "src/disk/journal/budget.rs",
        original: r#"        let bytes = lengths.budget.min(free.saturating_add(own) / PART);"#,
        replacement: r#"        let bytes = lengths.budget.min(free.saturating_add(own).saturating_mul(PART));"#,
        rung: SMALL,
    },
    Bug {
        name: "segment-kept-whose-sync-failed",
        file: "src/disk/journal/pool.rs",
        original: r#"            let _ = self.storage.remove_file(&blank.path);
"#,
        replacement: r#"            let Spare { path, file, len } = blank;
            let (path, file, len) = (path.clone(), file.clone(), *len);
            self.state.lock().spares.push(Spare { path, file, len });
"#,
        rung: REUSED,
    },
    Bug {
        name: "spares-kept-from-a-flush-without-space",
        file: "src/disk/journal/pool/space.rs",
        original: r#"        self.give_up(|_| true)"#,
        replacement: r#"        self.give_up(|_| false)"#,
        rung: SPARES,
    },
    Bug {
        name: "sidecar-before-journal",
        file: "src/engine/shard/flush.rs",
        original: r#"session_file::encode_sidecar(&session.synced_meta.to_sidecar())"#,
        replacement: r#"session_file::encode_sidecar(&session.settled.meta.to_sidecar())"#,
        rung: CRASHES,
    },
    Bug {
        name: "sidecar-being-written-taken-for-missing",
        file: "src/engine/shard/flush.rs",
        original: r#"        session.sidecar = Sidecar::Present;
"#,
        replacement: "",
        rung: BESIDE,
    },
    Bug {
        name: "sidecar-overwritten-without-an-image",
        file: "src/engine/shard/flush.rs",
        original: r#"Sidecar::Present if self.in_journal => overwrite"#,
        replacement: r#"Sidecar::Present if self.in_journal || true => overwrite"#,
        rung: CRASHES,
    },
    Bug {
        name: "sidecar-replaced-before-sync",
        file: "src/engine/shard/flush.rs",
        original: r#"        if synced {
            file.sync_data()?;
        }
"#,
        replacement: "",
        rung: CRASHES,
    },
    Bug {
        name: "flush-leaves-changes-in-flight-without-an-image",
        file: "src/engine/shard/worker/chores.rs",
        original: r#"        self.image_inflight();
"#,
        replacement: "",
        rung: OVERWRITES,
    },
    Bug {
        name: "lines-before-journal",
        file: "src/engine/shard/session.rs",
        original: r#"(self.synced - self.written) as usize"#,
        replacement: r#"(self.settled.end - self.written) as usize"#,
        rung: SIMULATION,
    },
    Bug {
        name: "rewrite-not-synced",
        file: "src/engine/shard/rewrite.rs",
        original: r#"        self.step()?;
        self.steps.end(&self.shared.last_rewrite);"#,
        replacement: r#"        self.write_out()?;"#,
        rung: CRASHES,
    },
    Bug {
        name: "rewrite-name-not-synced",
        file: "src/engine/shard/rewrite.rs",
        original: r#"    storage.sync_dir(dir).map_err(|e| Error::sync(dir, e))?;
    Ok(prepared)"#,
        replacement: r#"    Ok(prepared)"#,
        rung: CRASHES,
    },
    Bug {
        name: "old-file-written-over-as-new",
        file: "src/engine/recovery/redo/log.rs",
        original: r#"(swap.len > 0 || Self::is_exact(&*file, &path, plan)?)"#,
        replacement: r#"(swap.len > 0 || Self::is_exact(&*file, &path, plan).is_ok())"#,
        rung: REPORTED,
    },
    Bug {
        name: "truncated-lines-counted-as-missing",
        file: "src/engine/recovery/foreign/case.rs",
        original: r#"merge::missing(log, &journalled, truncated)?"#,
        replacement: r#"merge::missing(log, &journalled, 0)?"#,
        rung: REPORTED,
    },
    Bug {
        name: "skip-applied-twice",
        file: "src/engine/shard/verbs/append.rs",
        original: r#"            self.staged.meta.skip = skip;"#,
        replacement: r#"            self.staged.meta.skip += skip;"#,
        rung: CRASHES,
    },
    Bug {
        name: "once-id-not-journalled",
        file: "src/engine/shard/verbs/append.rs",
        original: r#"            once: once.as_deref().unwrap_or_default(),"#,
        replacement: r#"            once: "","#,
        rung: CRASHES,
    },
    Bug {
        name: "torn-line-not-ended",
        file: "src/engine/shard/verbs/append.rs",
        original: r#"            lines.insert(0, b'\n');
"#,
        replacement: r#""#,
        rung: CRASHES,
    },
    Bug {
        name: "deleted-names-not-flushed",
        file: "src/engine/shard/verbs/delete.rs",
        original: r#"        self.mark_dirty(id);
"#,
        replacement: "",
        rung: CRASHES,
    },
    Bug {
        name: "identity-name-not-synced",
        file: "src/engine/home.rs",
        original: r#"            .map_err(wrap)?;
        self.sync(storage)
    }"#,
        replacement: r#"            .map_err(wrap)?;
        Ok(())
    }"#,
        rung: CRASHES,
    },
    Bug {
        name: "directory-name-not-synced",
        file: "src/engine/home/sites.rs",
        original: r#"    storage
        .sync_dir(above)
        .map_err(|e| Error::io("sync", above, e))
}"#,
        replacement: r#"    Ok(())
}"#,
        rung: CRASHES,
    },
    Bug {
        name: "recovery-carries-out-an-unsynced-journal",
        file: "src/engine/recovery/run.rs",
        original: r#"    scan.persist(storage)?;
"#,
        replacement: r#""#,
        rung: SIMULATION,
    },
    Bug {
        name: "recovery-checkpoint-covers-too-little",
        file: "src/engine/recovery/run.rs",
        original: r#"        let upto = scan.sequence;"#,
        replacement: r#"        let upto = scan.sequence.saturating_sub(1);"#,
        rung: RECOVERY,
    },
    Bug {
        name: "recovery-renames-before-sync",
        file: "src/engine/recovery/redo.rs",
        original: r#"        sync()?;
        self.change_names()?;"#,
        replacement: r#"        self.change_names()?;"#,
        rung: REDO,
    },
    Bug {
        name: "recovery-leaves-names-unsynced",
        file: "src/engine/recovery/redo.rs",
        original: r#"        self.clear_temps(plans, &adopted.temps)?;
        sync()?;
"#,
        replacement: r#"        self.clear_temps(plans, &adopted.temps)?;
"#,
        rung: RECOVERY,
    },
    Bug {
        name: "records-after-a-checkpoint-know-no-file",
        file: "src/engine/shard/verbs/append.rs",
        original: r#"        self.staged.crc = crc.finalize();"#,
        replacement: r#"        self.staged.crc = 0;"#,
        rung: MATRIX,
    },
    Bug {
        name: "lines-of-others-dropped",
        file: "src/engine/recovery/foreign/merge.rs",
        original: r#"        self.ours = self.ours.continued(end, &added)?;"#,
        replacement: r#"        self.ours = self.ours.continued(end, b"")?;"#,
        rung: MATRIX,
    },
    Bug {
        name: "lines-others-hid-are-back",
        file: "src/engine/recovery/foreign/merge.rs",
        original: r#"                skip = self.hide(seen.as_ref(), theirs)?;"#,
        replacement: r#"                let _ = self.hide(seen.as_ref(), theirs)?;"#,
        rung: MATRIX,
    },
    Bug {
        name: "cleared-by-others-and-back",
        file: "src/engine/recovery/foreign/case.rs",
        original: r#"        if self.is_cut_by_them()? {"#,
        replacement: r#"        if self.is_cut_by_them()? && false {"#,
        rung: REPORTED,
    },
    Bug {
        name: "new-history-in-the-file-alone",
        file: "src/engine/shard/rewrite.rs",
        original: r#"prepared.len <= JOURNALLED {"#,
        replacement: r#"prepared.len > JOURNALLED {"#,
        rung: REPORTED,
    },
    Bug {
        name: "what-failed-attempts-prepared-stays",
        file: "src/engine/recovery/redo.rs",
        original: r#"    redo.clear_temps_from(temps)?;"#,
        replacement: r#""#,
        rung: REPORTED,
    },
    Bug {
        name: "an-idle-store-flushes-for-ever",
        file: "src/engine/supervisor/mod.rs",
        original: r#"would keep it from ever being idle.
        self.uncovered_since = self.shared.clock.monotonic();"#,
        replacement: r#"would keep it from ever being idle."#,
        rung: PACING,
    },
    Bug {
        name: "acknowledged-lines-without-a-backup",
        file: "src/engine/recovery/redo/adopt.rs",
        original: r#"        if let Some(conflict) = &changed.conflict {"#,
        replacement: r#"        if let Some(conflict) = changed.conflict.as_ref().filter(|_| false) {"#,
        rung: MATRIX,
    },
    Bug {
        name: "adopted-before-the-journal-says-so",
        file: "src/engine/recovery/run.rs",
        original: r#"        if adopted.records.is_empty() {"#,
        replacement: r#"        if !adopted.records.is_empty() {"#,
        rung: MATRIX,
    },
    Bug {
        name: "short-write-taken-for-whole",
        file: "src/ground/storage/mod.rs",
        original: r#"                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
"#,
        replacement: r#"                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) if n < buf.len() => return Ok(()),
"#,
        rung: ERRORS,
    },
    Bug {
        name: "interruption-taken-for-failure",
        file: "src/ground/storage/mod.rs",
        original: r#"                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
"#,
        replacement: r#"                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
"#,
        rung: SIMULATION,
    },
    Bug {
        name: "lock-taken-from-another-process",
        file: "src/ground/storage/disk.rs",
        original: r#"Err(TryLockError::WouldBlock) => return Ok(None),"#,
        replacement: r#"Err(TryLockError::WouldBlock) => {}"#,
        rung: PROCESSES,
    },
    Bug {
        name: "segments-retired-before-the-checkpoint",
        file: "src/engine/supervisor/event_loop.rs",
        original: r#"        self.checkpoint(upto, false, wait)?;
        self.supervisor.retire(upto)"#,
        replacement: r#"        self.supervisor.retire(upto)?;
        self.checkpoint(upto, false, wait)"#,
        rung: CRASHES,
    },
    Bug {
        name: "compaction-forgets-what-came-meanwhile",
        file: "src/engine/shard/verbs/compact.rs",
        original: r#"let (from, to) = (compaction.copied, self.session(id).settled.end);"#,
        replacement: r#"let (from, to) = (compaction.copied, compaction.copied);"#,
        rung: CRASHES,
    },
    Bug {
        name: "compaction-brings-back-what-was-truncated",
        file: "src/engine/shard/verbs/compact.rs",
        original: r#"compaction.start != self.start || "#,
        replacement: r#""#,
        rung: SIMULATION,
    },
    Bug {
        name: "damage-behind-the-end-not-looked-for",
        file: "src/disk/journal/scan.rs",
        original: r#"        self.look_behind(data, start, seed);
"#,
        replacement: "",
        rung: DAMAGE,
    },
    Bug {
        name: "names-not-folded",
        file: "src/disk/session_file/fold.rs",
        original: r#"    if name.is_ascii() {
        return to_lower(name);"#,
        replacement: r#"    if true {
        return Cow::Borrowed(name);"#,
        rung: FOLDING,
    },
    Bug {
        name: "name-of-a-deleted-session-given-to-its-twin",
        file: "src/engine/catalog/names.rs",
        original: r#"            false
        });"#,
        replacement: r#"            place.iter().all(|held| held.owner.is_none())
        });"#,
        rung: FOLDING,
    },
    Bug {
        name: "long-import-in-two-steps",
        file: "src/compat/migrate/legacy.rs",
        original: r#"            self.store.import_history(&key, messages).wait()?;"#,
        replacement: r#"            let (first, rest) = messages.split_at(messages.len() / 2);
            self.store.import_history(&key, first.to_vec()).wait()?;
            for message in rest {
                self.store.add_full_message(&key, message.clone()).wait()?;
            }"#,
        rung: IMPORTS,
    },
    Bug {
        name: "file-replaced-before-its-sidecar-shows-more",
        file: "src/engine/shard/swap.rs",
        original: r#"        if meta.skip >= session.settled.meta.skip.min(session.hides) {"#,
        replacement: r#"        if true {"#,
        rung: EYES,
    },
    Bug {
        name: "sidecar-in-place-taken-to-hide-nothing",
        file: "src/engine/shard/flush.rs",
        original: r#"session.hides = session.synced_meta.skip;"#,
        replacement: r#"session.hides = 0;"#,
        rung: EYES,
    },
    Bug {
        name: "recovered-file-replaced-before-its-sidecar-shows-more",
        file: "src/engine/recovery/redo/sidecar.rs",
        original: r#"if hidden.is_some_and(|hidden| meta.skip < hidden) {"#,
        replacement: r#"if false {"#,
        rung: EYES,
    },
    Bug {
        name: "part-of-a-line-left-on-a-full-disk",
        file: "src/engine/shard/write.rs",
        original: r#"if error.may_pass() && lines.file.set_len(lines.at).is_err() {"#,
        replacement: r#"if false && lines.file.set_len(lines.at).is_err() {"#,
        rung: ERRORS,
    },
    Bug {
        name: "full-shard-goes-on-taking-lines",
        file: "src/engine/shard/write.rs",
        original: r#"        if !self.full && turn.no_room.is_none() {
            return Ok(());"#,
        replacement: r#"        if true {
            return Ok(());"#,
        rung: FULL,
    },
    Bug {
        name: "unsynced-lines-shown-by-a-poisoned-store",
        file: "src/engine/shard/worker/signals.rs",
        original: r#"        self.commit();
        self.fail_from(0, &error);"#,
        replacement: r#"        self.commit();
        self.show_up_to(u64::MAX);
        self.fail_from(0, &error);"#,
        rung: ERRORS,
    },
    Bug {
        name: "unreadable-sidecar-taken-for-missing",
        file: "src/disk/files/sidecar.rs",
        original: r#"        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Ok((Meta::empty(key), Sidecar::Missing));"#,
        replacement: r#"        Err(_) => {
            return Ok((Meta::empty(key), Sidecar::Missing));"#,
        rung: ERRORS,
    },
    Bug {
        name: "unreadable-log-taken-for-missing",
        file: "src/disk/files/mod.rs",
        original: r#"        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("open", &path, e)),"#,
        replacement: r#"        Err(_) => Ok(None),"#,
        rung: ERRORS,
    },
    Bug {
        name: "waiting-commands-not-counted",
        file: "src/engine/shard/waiting.rs",
        original: r#"        let fits = self.requests.len() < MOST &&"#,
        replacement: r#"        let fits = true ||"#,
        rung: WAITING,
    },
    Bug {
        name: "deleted-session-restored-over-another",
        file: "src/engine/shard/verbs/restore.rs",
        original: r#"        if shard.session(id).deleted {"#,
        replacement: r#"        if false {"#,
        rung: BACKUPS,
    },
    Bug {
        name: "deep-scope-not-read-again",
        file: "src/disk/session_file/sidecar.rs",
        original: r#"Scanner::of_any_depth(text)"#,
        replacement: r#"Scanner::new(text)"#,
        rung: SIDECARS,
    },
    Bug {
        name: "broken-worker-stays-in-its-seat",
        file: "src/engine/shard/worker/seat.rs",
        original: r#"        let mut broken = seat.take();
        drop(seat);"#,
        replacement: r#"        let mut broken: Option<Worker> = None;
        seat.as_mut();
        drop(seat);"#,
        rung: BROKEN,
    },
];
