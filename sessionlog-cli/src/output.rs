//! Writes results: to a terminal, a pager, or a pipe.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

use crate::failure::Result;
use crate::{names, safe};

/// The style of names.
pub(crate) const KEY: Style = AnsiColor::Magenta.on_default();
/// The style of a match.
pub(crate) const MATCH: Style = AnsiColor::Red.on_default().bold();
/// The style of less important text.
pub(crate) const DIM: Style = Style::new().dimmed();
/// The style of good results.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// The style of bad results.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// Headings.
pub(crate) const HEAD: Style = Style::new().bold();

/// The results of a command.
pub(crate) struct Output {
    writer: Box<dyn Write>,
    colours: bool,
    terminal: bool,
    pager: Option<Child>,
}

impl Output {
    /// Writes to standard output.
    pub(crate) fn new() -> Self {
        let stdout = io::stdout();
        Self {
            colours: anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never,
            terminal: stdout.is_terminal(),
            writer: Box::new(BufWriter::with_capacity(1 << 16, stdout)),
            pager: None,
        }
    }

    /// Writes through the user's pager, if standard output is a terminal: `$PAGER`, or `less`,
    /// which is told to leave short texts on the screen.
    pub(crate) fn paged(wanted: bool) -> Self {
        let plain = Self::new();
        if !wanted || !plain.terminal {
            return plain;
        }
        let pager = std::env::var("PAGER").unwrap_or_default();
        let pager = if pager.trim().is_empty() {
            "less"
        } else {
            &pager
        };
        if pager == "cat" {
            return plain;
        }
        let mut command = Command::new("sh");
        command.args(["-c", pager]).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", "FRX");
        }
        let Ok(mut child) = command.spawn() else {
            return plain;
        };
        let Some(stdin) = child.stdin.take() else {
            return plain;
        };
        Self {
            writer: Box::new(BufWriter::with_capacity(1 << 16, stdin)),
            pager: Some(child),
            ..plain
        }
    }

    /// True if a terminal shows it, perhaps through a pager.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub(crate) fn line(&mut self, text: &str) -> Result<()> {
        self.writer.write_all(text.as_bytes())?;
        Ok(self.writer.write_all(b"\n")?)
    }

    /// Writes bytes unchanged.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.writer.write_all(bytes)?)
    }

    /// Writes one JSON value on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut self.writer, value)?;
        Ok(self.writer.write_all(b"\n")?)
    }

    pub(crate) fn table(&mut self, table: &Table) -> Result<()> {
        for line in table.lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// Returns a text in a style, if there are colours.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if self.colours {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// Shows the output so far.
    pub(crate) fn flush(&mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }

    /// Shows everything, and waits until the pager is left.
    pub(crate) fn finish(mut self) -> Result<()> {
        let flushed = self.writer.flush();
        drop(self.writer);
        if let Some(mut pager) = self.pager.take() {
            pager.wait()?;
        }
        Ok(flushed?)
    }
}

/// Writes these lines to standard output.
pub(crate) fn lines(lines: &[String]) -> Result<()> {
    let mut out = Output::new();
    for line in lines {
        out.line(line)?;
    }
    out.finish()
}

/// Returns the width of the output, in columns.
pub(crate) fn width() -> usize {
    let size = ratatui::crossterm::terminal::size();
    size.map_or(100, |(columns, _)| usize::from(columns))
        .max(40)
}

/// Returns a table without borders.
pub(crate) fn table<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.into_iter().collect::<Vec<_>>());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Returns a number of bytes for a person.
pub(crate) fn bytes(bytes: u64) -> String {
    bytesize::ByteSize::b(bytes)
        .display()
        .iec_short()
        .to_string()
}

/// Returns a number of things: `1 session`, `2 sessions`.
pub(crate) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// True if remarks, warnings and progress are left out. Unset, they are not.
static QUIET: OnceLock<bool> = OnceLock::new();

/// Leaves out remarks, warnings and progress from now on, or not.
pub(crate) fn be_quiet(is_quiet: bool) {
    // The first call counts; the command line makes one.
    let _ = QUIET.set(is_quiet);
}

/// Returns true if remarks, warnings and progress are left out.
pub(crate) fn is_quiet() -> bool {
    QUIET.get().is_some_and(|is_quiet| *is_quiet)
}

/// Writes a remark that is no result, to standard error, safe for a terminal. Keys of the open
/// store that are hashes are replaced by names.
pub(crate) fn note(text: &str) {
    if is_quiet() {
        return;
    }
    let text = names::text(text);
    anstream::eprintln!("{DIM}{}{DIM:#}", safe::block(&text));
}

/// Writes a warning: something is wrong, and the command goes on. Names stand for keys as in
/// [`note`].
pub(crate) fn warn(text: &str) {
    if is_quiet() {
        return;
    }
    let text = names::text(text);
    anstream::eprintln!("{BAD}warning:{BAD:#} {}", safe::block(&text));
}
