//! All states in which a session's own store may have left its files: before the journal's records,
//! and since.

use std::borrow::Cow;
use std::sync::Arc;

use sessionlog_core::session_file::{self, Kind, SessionMeta};
use sessionlog_wal::journal::record::{MetaState, Prior};

use super::session::{AppendedLines, Base, Patch};

/// The states that a session's files may have been left in.
#[derive(Debug, Clone)]
pub(crate) struct Past<L> {
    /// The files before the first record.
    pub(crate) first: Option<First>,
    /// The session's files before the present one, oldest first.
    pub(crate) earlier: Vec<Earlier<L>>,
    /// True if the session was deleted since: its file may be missing.
    pub(crate) deleted: bool,
    /// The earlier sidecar, as stated by the first record that changes more of it than appends do.
    text: Option<Box<SessionMeta>>,
    /// The sidecar after each record.
    pub(crate) said: Vec<SidecarEffect>,
}

/// A session's two files before the first record that names it.
#[derive(Debug, Clone)]
pub(crate) struct First {
    /// Length of the session file, and the CRC-32 of its bytes.
    pub(crate) len: u64,
    pub(crate) crc: u32,
    pub(crate) sidecar: PastSidecar,
}

/// A sidecar before the first record.
#[derive(Debug, Clone)]
pub(crate) enum PastSidecar {
    /// There was none, or none that decoded.
    None,
    /// Written by the flush before.
    Written(Box<SessionMeta>),
    /// The first record appended this many lines, and changed nothing else but the time and a
    /// `skip` beyond the file. `was` has both values from before, if the record states them.
    Appended {
        lines: i64,
        was: Option<(i64, String)>,
    },
}

/// A session's file before it was replaced or deleted.
#[derive(Debug, Clone)]
pub(crate) enum Earlier<L> {
    /// It became the backup of this name.
    Kept(String),
    Replaced {
        base: Base,
        appended: L,
    },
}

/// The effect of a record on a sidecar.
#[derive(Debug, Clone)]
pub(crate) enum SidecarEffect {
    Whole(Arc<SessionMeta>),
    Patch(Patch),
    /// The session was deleted.
    Nothing,
}

impl<L> Default for Past<L> {
    fn default() -> Self {
        Self {
            first: None,
            earlier: Vec::new(),
            deleted: false,
            text: None,
            said: Vec::new(),
        }
    }
}

impl First {
    /// Returns the state before a record that states it.
    fn of(before: Prior<'_>) -> Self {
        let Prior { len, crc, sidecar } = before;
        Self {
            len,
            crc,
            sidecar: Self::written(sidecar),
        }
    }

    fn written(sidecar: &[u8]) -> PastSidecar {
        let sidecar = session_file::decode_sidecar(sidecar).ok();
        sidecar.map_or(PastSidecar::None, |meta| {
            PastSidecar::Written(Box::new(meta))
        })
    }

    /// Returns the state before lines were appended.
    pub(super) fn of_append(len: u64, crc: u32, meta: MetaState<'_>, bytes: &[u8]) -> Self {
        let was = match meta {
            MetaState::Image {
                skip, updated_at, ..
            } => Some((skip, updated_at.into())),
            MetaState::First(_) | MetaState::Changed { .. } | MetaState::Patch { .. } => None,
        };
        let sidecar = match meta {
            MetaState::First(_) => PastSidecar::None,
            MetaState::Changed { before, .. } => Self::written(before),
            MetaState::Image { .. } | MetaState::Patch { .. } => PastSidecar::Appended {
                lines: count_lines(bytes),
                was,
            },
        };
        Self { len, crc, sidecar }
    }
}

impl SidecarEffect {
    fn whole(&self) -> Option<&SessionMeta> {
        match self {
            Self::Whole(meta) => Some(meta),
            Self::Patch(_) | Self::Nothing => None,
        }
    }
}

impl<L: AppendedLines> Past<L> {
    /// Takes in a record's statement of the files before it.
    pub(super) fn before(&mut self, prior: Prior<'_>) {
        if self.first.is_none() {
            self.first = Some(First::of(prior));
        } else {
            self.changes(prior.sidecar);
        }
    }

    /// Takes in the sidecar before a record that changes more of it than an append.
    pub(super) fn changes(&mut self, sidecar: &[u8]) {
        if self.text.is_none() && self.said.iter().all(|said| said.whole().is_none()) {
            let text = session_file::decode_sidecar(sidecar).ok();
            self.text = text.map(Box::new);
        }
    }

    /// Returns true if any sidecar that the store may have left, oldest first, satisfies `is_it`;
    /// `None` stands for no sidecar. Fields that patching records leave unsaid are taken from
    /// `on_disk`.
    pub(crate) fn any_sidecar(
        &self,
        on_disk: Option<&SessionMeta>,
        mut is_it: impl FnMut(Option<&SessionMeta>) -> bool,
    ) -> bool {
        let mut now = self.before_first(on_disk);
        if is_it(now.as_ref()) {
            return true;
        }
        self.said.iter().any(|said| {
            match said {
                SidecarEffect::Whole(meta) => now = Some((**meta).clone()),
                SidecarEffect::Nothing => now = None,
                SidecarEffect::Patch(patch) => {
                    if let Some(now) = &mut now {
                        patch.apply(now);
                    }
                }
            }
            is_it(now.as_ref())
        })
    }

    /// Returns true if the store may have left a sidecar that is the one on disk. `is_same` decides
    /// whether two are the same; it must tell apart those that differ in the fields that appends
    /// change.
    pub(crate) fn had(
        &self,
        on_disk: &SessionMeta,
        is_same: impl Fn(&SessionMeta, &SessionMeta) -> bool,
    ) -> bool {
        let first = self.before_first(Some(on_disk)).map(Cow::Owned);
        if first.as_ref().is_some_and(|first| is_same(first, on_disk)) {
            return true;
        }
        // Most states differ in the fields that appends change: those are told apart without being
        // made.
        let mut whole = first;
        self.said.iter().any(|said| match said {
            SidecarEffect::Whole(meta) => {
                whole = Some(Cow::Borrowed(meta));
                is_same(meta, on_disk)
            }
            SidecarEffect::Nothing => {
                whole = None;
                false
            }
            SidecarEffect::Patch(patch) => whole.as_ref().is_some_and(|whole| {
                patch.is_of(on_disk) && {
                    let mut now = (**whole).clone();
                    patch.apply(&mut now);
                    is_same(&now, on_disk)
                }
            }),
        })
    }

    fn before_first(&self, on_disk: Option<&SessionMeta>) -> Option<SessionMeta> {
        let (lines, was) = match &self.first.as_ref()?.sidecar {
            PastSidecar::None => return None,
            PastSidecar::Written(meta) => return Some((**meta).clone()),
            PastSidecar::Appended { lines, was } => (*lines, was),
        };
        let whole = || self.said.iter().find_map(SidecarEffect::whole);
        let text = self.text.as_deref().or_else(whole);
        let mut meta = text.or(on_disk)?.clone();
        if let Some(SidecarEffect::Patch(first)) = self.said.first() {
            first.apply(&mut meta);
        }
        meta.count = meta.count.saturating_sub(lines);
        if let Some((skip, updated_at)) = was {
            meta.skip = *skip;
            meta.updated_at.clone_from(updated_at);
        } else if let Some(on_disk) = on_disk {
            meta.updated_at.clone_from(&on_disk.updated_at);
        }
        Some(meta)
    }
}

/// Counts lines as `skip` does.
pub(crate) fn count_lines(bytes: &[u8]) -> i64 {
    let lines = session_file::lines(bytes);
    let lines = lines.filter(|(_, line)| session_file::classify(line) != Kind::Blank);
    i64::try_from(lines.count()).unwrap_or(i64::MAX)
}
