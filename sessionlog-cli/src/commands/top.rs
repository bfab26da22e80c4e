//! `sessionlog top`: a store, live.

mod files;
mod published;
mod sample;
mod screen;
mod sessions;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use self::files::Files;
use self::published::Published;
use self::sample::{Sample, Source};
use self::screen::Screen;
use self::sessions::Sessions;
use crate::failure::{Failure, Outcome, Result};
use crate::output::Output;
use crate::store::{Dir, Reading};
use crate::times;

/// Watch a store live
///
/// What a running gateway says of itself (messages, commits and syncs per second, and how long
/// they take), who writes to it, what its journal and its files take, the space left, and which
/// sessions change. Looks at the files, beside the gateway, and takes less than one hundredth of a core:
/// of a store with very many sessions the figures that need a look at all of them come less
/// often than the others.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog top DIR
  sessionlog top DIR --once           one sample as text
  sessionlog top DIR --once --json    one sample for a program
  sessionlog top DIR --json           one per line, until Ctrl-C

Keys: q ends, + and - look more and less often.")]
pub(crate) struct Top {
    #[command(flatten)]
    dir: Dir,
    /// One sample, then end
    #[arg(short = '1', long)]
    once: bool,
    /// One JSON object per sample and line
    #[arg(long)]
    json: bool,
    /// How often
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = times::parse_length)]
    interval: Duration,
}

/// The shortest time between two samples.
const SHORTEST: Duration = Duration::from_millis(200);

impl Top {
    pub(crate) fn run(self) -> Result<Outcome> {
        if self.once || self.json {
            let store = self.dir.read()?;
            return self.print(&mut self.sources(&store));
        }
        if !std::io::stdout().is_terminal() {
            let failure = Failure::new("top draws on a terminal, and there is none");
            return Err(failure.hint("use --once, or --json"));
        }
        let mut terminal = ratatui::try_init()?;
        let watched = self.watch(&mut terminal);
        ratatui::restore();
        watched
    }

    /// Returns the sources of figures.
    fn sources<'a>(&'a self, store: &'a Reading) -> Vec<Box<dyn Source + 'a>> {
        vec![
            Box::new(Published::of(self.dir.path())),
            Box::new(Sessions::of(self.dir.path(), &store.chats)),
            Box::new(Files::of(self.dir.path(), &store.chats)),
        ]
    }

    fn print(&self, sources: &mut [Box<dyn Source + '_>]) -> Result<Outcome> {
        let mut out = Output::new();
        loop {
            let sample = Sample::take(sources)?;
            if self.json {
                out.json(&sample)?;
            } else {
                sample.print(&mut out)?;
            }
            out.flush()?;
            if self.once {
                out.finish()?;
                return Ok(Outcome::Done);
            }
            std::thread::sleep(self.interval.max(SHORTEST));
        }
    }

    fn watch(&self, terminal: &mut ratatui::DefaultTerminal) -> Result<Outcome> {
        let mut screen = Screen::of(self.dir.path());
        terminal.draw(|frame| screen.draw_loading(frame))?;
        let store = self.dir.read()?;
        let mut sources = self.sources(&store);
        let mut interval = self.interval.max(SHORTEST);
        loop {
            screen.take(Sample::take(&mut sources)?);
            let next = Instant::now() + interval;
            loop {
                terminal.draw(|frame| screen.draw(frame, interval))?;
                match key_before(next)? {
                    None => break,
                    Some(Key::Quit) => return Ok(Outcome::Done),
                    Some(Key::Faster) => interval = (interval / 2).max(SHORTEST),
                    Some(Key::Slower) => interval = (interval * 2).min(Duration::from_mins(1)),
                    Some(Key::Other) => {}
                }
            }
        }
    }
}

/// A person's command.
enum Key {
    Quit,
    Faster,
    Slower,
    /// Any other event, such as a new size of the terminal.
    Other,
}

/// Returns the person's next command, if it comes before `next`.
fn key_before(next: Instant) -> Result<Option<Key>> {
    let left = next.saturating_duration_since(Instant::now());
    if left.is_zero() || !event::poll(left)? {
        return Ok(None);
    }
    let Event::Key(key) = event::read()? else {
        return Ok(Some(Key::Other));
    };
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Ok(Some(match key.code {
        _ if key.kind == KeyEventKind::Release => Key::Other,
        KeyCode::Char('c') if is_control => Key::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
        KeyCode::Char('+') => Key::Faster,
        KeyCode::Char('-') => Key::Slower,
        _ => Key::Other,
    }))
}
