//! The progress of long work, on standard error, if that is a terminal.

use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Returns a bar for a known number of things.
pub(crate) fn counted(total: usize, what: &str) -> ProgressBar {
    if output::is_quiet() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total as u64);
    let template = format!(
        "{{msg}} {{wide_bar}} {{human_pos}}/{{human_len}} {what}, {{per_sec}}, {{eta}} left"
    );
    styled(bar, &template)
}

/// Returns a spinner for an unknown number of things.
pub(crate) fn endless(message: &'static str) -> ProgressBar {
    if output::is_quiet() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(message);
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Does `work`, which reads the files of a directory once, and shows its progress: the library does
/// not report it, but the operating system counts the bytes that this process reads.
pub(crate) fn while_reading<T>(dir: &Path, message: &'static str, work: impl FnOnce() -> T) -> T {
    use std::io::IsTerminal;
    let is_shown = std::io::stderr().is_terminal() && !output::is_quiet();
    let Some(before) = bytes_read().filter(|_| is_shown) else {
        return work();
    };
    let bar = ProgressBar::new(size_of(dir)).with_message(message);
    let template = "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes}, \
                    {binary_bytes_per_sec}, {eta} left";
    let bar = styled(bar, template);
    let (done, stop) = std::sync::mpsc::channel::<()>();
    let watched = bar.clone();
    let result = std::thread::scope(|scope| {
        scope.spawn(move || {
            let pause = Duration::from_millis(200);
            while let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = stop.recv_timeout(pause) {
                let read = bytes_read().unwrap_or(before).saturating_sub(before);
                // Bytes that are read twice must not look like the end.
                let most = watched.length().unwrap_or(0).saturating_sub(1);
                watched.set_position(read.min(most));
            }
        });
        let result = work();
        drop(done);
        result
    });
    bar.finish_and_clear();
    result
}

/// Returns the bytes that this process has read so far, where the system tells.
fn bytes_read() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    let read = io.lines().find_map(|line| line.strip_prefix("rchar:"));
    read?.trim().parse().ok()
}

/// Returns the bytes of the files in a directory and in those within it. Links are not followed.
pub(crate) fn size_of(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    let sizes = entries.flatten().filter_map(|entry| {
        let info = entry.metadata().ok()?;
        Some(if info.is_dir() {
            size_of(&entry.path())
        } else {
            info.len()
        })
    });
    sizes.sum()
}
