//! The figures of a store at one moment, from all sources.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::cost::Cost;
use crate::failure::Result;
use crate::output::{self, HEAD, Output};
use crate::{safe, times};

/// A source of figures.
pub(super) trait Source {
    /// Adds the present figures.
    ///
    /// # Errors
    /// If they cannot be found out, and will not be.
    fn add(&mut self, sample: &mut Sample) -> Result<()>;
}

/// A store at one moment.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) groups: Vec<Group>,
    /// Sessions that changed last.
    pub(super) recent: Vec<Recent>,
}

/// Figures that belong together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// For programs.
    pub(super) name: &'static str,
    /// For people.
    pub(super) title: &'static str,
    pub(super) figures: Vec<Figure>,
}

/// One figure.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    /// For programs, with its unit.
    pub(super) name: &'static str,
    /// For people.
    pub(super) label: &'static str,
    pub(super) value: Value,
}

/// The value of a figure.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    Count(u64),
    Bytes(u64),
    PerSecond(f64),
    /// Microseconds, for programs.
    #[serde(serialize_with = "micros")]
    Time(Duration),
    /// Seconds.
    Age(f64),
    Text(String),
    Unknown(Option<()>),
}

/// A session that changed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Recent {
    pub(super) session: String,
    pub(super) title: String,
    pub(super) updated_at: String,
    pub(super) bytes: u64,
}

impl Sample {
    /// Takes a sample of all sources.
    pub(super) fn take(sources: &mut [Box<dyn Source + '_>]) -> Result<Self> {
        let mut sample = Self::default();
        for source in sources {
            source.add(&mut sample)?;
        }
        Ok(sample)
    }

    /// Prints it as text, one figure on a line.
    pub(super) fn print(&self, out: &mut Output) -> Result<()> {
        for group in &self.groups {
            out.line(&out.paint(HEAD, group.title))?;
            for figure in &group.figures {
                out.line(&format!("  {:22} {}", figure.label, figure.value.text()))?;
            }
        }
        out.line(&out.paint(HEAD, "changed last"))?;
        for recent in &self.recent {
            let name = safe::short_name(&recent.session, 44);
            let changed = times::shown(&recent.updated_at);
            out.line(&format!(
                "  {changed}  {name}  {}",
                safe::short(&recent.title, 60)
            ))?;
        }
        Ok(())
    }
}

impl Group {
    pub(super) fn new(name: &'static str, title: &'static str) -> Self {
        Self {
            name,
            title,
            figures: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, name: &'static str, label: &'static str, value: Value) {
        self.figures.push(Figure { name, label, value });
    }
}

impl Value {
    /// Returns the text for a person.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Bytes(bytes) => output::bytes(*bytes),
            Self::PerSecond(rate) if *rate >= 100.0 => format!("{rate:.0}/s"),
            Self::PerSecond(rate) => format!("{rate:.1}/s"),
            Self::Time(time) => format!("{time:.1?}"),
            Self::Age(seconds) if *seconds < 120.0 => format!("{seconds:.1} s ago"),
            Self::Age(seconds) => format!("{:.0} min ago", seconds / 60.0),
            Self::Text(text) => safe::short(text, 60),
            Self::Unknown(_) => String::from("-"),
        }
    }
}

fn micros<S: Serializer>(time: &Duration, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1e6)
}

impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("time", &Timestamp::now().to_string())?;
        for group in &self.groups {
            map.serialize_entry(group.name, group)?;
        }
        map.serialize_entry("changed_last", &self.recent)?;
        map.end()
    }
}

impl Serialize for Group {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let figures = self.figures.iter();
        serializer.collect_map(figures.map(|figure| (figure.name, &figure.value)))
    }
}

/// The schedule of expensive looks: so seldom that they take at most one part in
/// [`SHARE`](Self::SHARE) of a core.
#[derive(Debug, Default)]
pub(super) struct Seldom {
    next: Option<Instant>,
}

impl Seldom {
    const SHARE: u32 = 250;

    /// Does `work` if it is due.
    pub(super) fn run<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        if self.next.is_some_and(|next| Instant::now() < next) {
            return Ok(None);
        }
        let cost = Cost::begin();
        let done = work()?;
        let pause = (cost.so_far() * Self::SHARE).max(Duration::from_secs(1));
        self.next = Some(Instant::now() + pause);
        Ok(Some(done))
    }
}
