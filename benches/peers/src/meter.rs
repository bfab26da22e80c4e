//! What the operating system counts of this process and of the disk.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use crate::support::Outcome;
use crate::support::bare::zeroed;
use crate::support::sample::{float, median};

/// The unit of the block layer's statistics, whatever the disk's own.
const SECTOR_BYTES: u64 = 512;

/// Bytes written so far.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    /// By this process in calls that write. The kernel's own count of its bytes
    /// (`write_bytes`) takes a whole folio for each first byte that is changed
    /// in it, and folios of files are megabytes large where files are.
    process: u64,
    /// By anyone, to the device.
    device: Option<u64>,
}

/// Bytes written for each byte of a message.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Amplification {
    pub(crate) process: f64,
    pub(crate) device: Option<f64>,
}

impl Written {
    /// `dir` is on the device that counts.
    pub(crate) fn now(dir: &Path) -> Outcome<Self> {
        let io = std::fs::read_to_string("/proc/self/io")?;
        let process = field(&io, "wchar:").ok_or("no wchar in /proc/self/io")?;
        let device = device_bytes(dir);
        Ok(Self { process, device })
    }

    pub(crate) fn amplification(self, since: Self, payload_bytes: usize) -> Amplification {
        let per_byte = |now: u64, then: u64| float((now - then) as usize) / float(payload_bytes);
        let device = self.device.zip(since.device);
        Amplification {
            process: per_byte(self.process, since.process),
            device: device.map(|(now, then)| per_byte(now, then)),
        }
    }
}

/// The number after a name in a file of `/proc`.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Nothing where the directory is on no block device of its own.
fn device_bytes(dir: &Path) -> Option<u64> {
    let device = dir.metadata().ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
    let stat = std::fs::read_to_string(stat).ok()?;
    let sectors: u64 = stat.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * SECTOR_BYTES)
}

/// Resident memory, in megabytes.
pub(crate) fn resident_mb() -> Outcome<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kilobytes = field(&status, "VmRSS:").ok_or("no VmRSS in /proc/self/status")?;
    Ok(float(kilobytes as usize) / 1024.0)
}

/// Open descriptors.
pub(crate) fn descriptors() -> Outcome<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

/// Megabytes on disk below a directory.
pub(crate) fn disk_mb(dir: &Path) -> Outcome<f64> {
    Ok(float(blocks(dir)? as usize) * 512.0 / 1e6)
}

/// Files that a store replaces meanwhile count for nothing.
fn blocks(dir: &Path) -> Outcome<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        sum += if metadata.is_dir() {
            blocks(&entry.path())?
        } else {
            metadata.blocks()
        };
    }
    Ok(sum)
}

/// Microseconds of one small write and sync: the median of two hundred.
pub(crate) fn sync_micros(dir: &Path) -> Outcome<f64> {
    const SYNCS: usize = 200;
    const BYTES: usize = 300;
    let path = dir.join("sync-time");
    let file: File = zeroed(&path)?;
    let mut micros = Vec::with_capacity(SYNCS);
    for turn in 0..SYNCS {
        let started = Instant::now();
        file.write_all_at(&[b'x'; BYTES], (turn * BYTES) as u64)?;
        file.sync_data()?;
        micros.push(started.elapsed().as_secs_f64() * 1e6);
    }
    std::fs::remove_file(path)?;
    Ok(median(micros))
}
