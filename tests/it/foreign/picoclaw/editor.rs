//! A person who mends a session's files by hand.

use super::sidecar::Sidecar;
use super::{Files, PicoClaw, log_name, sidecar_name};

/// What stands before a message's text in its line.
const CONTENT: &[u8] = b"\"content\":\"";

impl<F: Files> PicoClaw<F> {
    /// Changes the first byte of the text of the `nth` line, counted from 0 without
    /// empty ones, and writes over the file: no size changes.
    pub(crate) fn editor_fix_typo(&self, key: &str, nth: usize) {
        let (name, mut lines) = self.lines_in_editor(key);
        let line = &mut lines[nth];
        let before = line.windows(CONTENT.len()).position(|part| part == CONTENT);
        let at = before.expect("the line is a message") + CONTENT.len();
        assert!(line[at].is_ascii_alphanumeric(), "the text can be changed");
        line[at] = if line[at] == b'x' { b'y' } else { b'x' };
        self.files.overwrite(&name, &lines.concat());
    }

    /// Takes the `nth` line out, counted from 0 without empty ones, and puts a new
    /// file in the place of the old one. The sidecar is not told.
    pub(crate) fn editor_remove_line(&self, key: &str, nth: usize) {
        let (name, mut lines) = self.lines_in_editor(key);
        lines.remove(nth);
        self.files.replace(&name, &lines.concat());
    }

    /// Writes another summary over the one in the sidecar, which is there, and ends
    /// the file with a line feed, as editors do. All else stays, the times too.
    pub(crate) fn editor_rewrite_sidecar_summary(&self, key: &str, summary: &str) {
        let name = sidecar_name(key);
        let bytes = self.files.read(&name).expect("there is a sidecar");
        let mut sidecar = Sidecar::decode(&bytes).expect("the sidecar is sound");
        summary.clone_into(&mut sidecar.summary);
        let mut bytes = sidecar.encode();
        bytes.push(b'\n');
        self.files.overwrite(&name, &bytes);
    }

    /// A log's name and its lines that are not empty, with their ends.
    fn lines_in_editor(&self, key: &str) -> (String, Vec<Vec<u8>>) {
        let name = log_name(key);
        let bytes = self.files.read(&name).expect("there is a log");
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !matches!(line, [b'\n'] | [b'\r', b'\n']));
        (name, lines.map(<[u8]>::to_vec).collect())
    }
}
