//! When calls fail, and how.

use std::io;

use rustix::io::Errno;

/// An error that a call can be made to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An input/output error, from any call. Nothing is read or changed; what a
    /// failed sync leaves behind is [`SyncFault`]'s.
    Eio,
    /// No space left, from calls that can need space: writing, resizing,
    /// creating, renaming, locking and syncing. Nothing is changed. Other calls
    /// go through.
    Enospc,
    /// Half of a read or write, rounded up, is done and counted. Other calls go
    /// through.
    Short,
    /// Half of a write is done, rounded up, and there is no space for the rest: the
    /// next call that needs some finds none. Other calls go through.
    ShortOfSpace,
    /// A read or write is interrupted before it has done anything. Other calls
    /// go through.
    Interrupted,
    /// No descriptor left, from calls that open something. Nothing is changed.
    /// Other calls go through.
    Emfile,
    /// Before the call, everything owed to the disk is written back in the
    /// background, which fails and leaves what [`SyncFault`] says. Nobody is told
    /// of it until the next sync. The call goes through.
    WriteBack,
    /// The same, and another program syncs and is told of it: whoever opens a
    /// file or directory from then on is not.
    WriteBackTold,
}

/// How often a [`Fault`] strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// At the given step only, if the call there can report it.
    Once,
    /// At every call from the given step on that can report it. An
    /// [`Interrupted`](Fault::Interrupted) call is let through when it is
    /// tried again, so that retrying ends.
    Forever,
}

/// What a failed sync leaves behind. All three have been observed on file
/// systems in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncFault {
    /// Reads go on seeing the new bytes, the disk has the old ones, and no
    /// later sync writes them: the cache takes them for written.
    #[default]
    CleanPageStaleDisk,
    /// The cache goes back to what the disk has.
    ContentReverted,
    /// Everything reached the disk, and the call failed all the same.
    ReportedFailedButLanded,
}

/// What a call needs, which decides the faults it can report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Can take up space without writing bytes.
    Space,
    /// Opens something.
    Descriptor,
    /// Both.
    SpaceAndDescriptor,
    /// None of these.
    Nothing,
}

/// What becomes of a call.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is done.
    Whole,
    /// It is done by half.
    Half,
    /// It is done after a write-back that failed, and that somebody else was
    /// `told` of.
    AfterWriteBack { told: bool },
    /// It fails, and what it was to do is not done.
    Failed(io::Error),
    /// The machine is off; not even a failed sync has an effect.
    Off(io::Error),
}

/// Counts the calls and decides which of them fail.
#[derive(Debug, Default)]
pub(super) struct Faults {
    steps: u64,
    crash_at: Option<u64>,
    planned: Vec<(u64, Fault, Repeat)>,
    /// The last step that was interrupted.
    interrupted: Option<u64>,
    hits: u64,
    /// What a sync that is made to fail leaves behind.
    pub(super) on_sync: SyncFault,
}

impl Faults {
    /// Nothing counted or planned; failing syncs have the same effect.
    pub(super) fn after_crash(&self) -> Self {
        Self {
            on_sync: self.on_sync,
            ..Self::default()
        }
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits
    }

    pub(super) fn crash_at(&mut self, step: u64) {
        self.crash_at = Some(step);
    }

    pub(super) fn plan(&mut self, step: u64, fault: Fault, repeat: Repeat) {
        self.planned.push((step, fault, repeat));
    }

    pub(super) fn heal(&mut self) {
        self.planned.clear();
    }

    /// Counts a call and decides what becomes of it.
    pub(super) fn judge(&mut self, demand: Demand, owes_bytes: impl Fn() -> bool) -> Verdict {
        let step = self.steps;
        self.steps += 1;
        if self.crash_at.is_some_and(|crash| step >= crash) {
            return Verdict::Off(io::Error::other("power is off"));
        }
        let Some(fault) = self.due(step, demand, owes_bytes) else {
            return Verdict::Whole;
        };
        self.hits += 1;
        match fault {
            Fault::Eio => Verdict::Failed(Errno::IO.into()),
            Fault::Enospc => Verdict::Failed(Errno::NOSPC.into()),
            Fault::Emfile => Verdict::Failed(Errno::MFILE.into()),
            Fault::WriteBack => Verdict::AfterWriteBack { told: false },
            Fault::WriteBackTold => Verdict::AfterWriteBack { told: true },
            Fault::Short => Verdict::Half,
            Fault::ShortOfSpace => {
                self.planned.push((step + 1, Fault::Enospc, Repeat::Once));
                Verdict::Half
            }
            Fault::Interrupted => {
                self.interrupted = Some(step);
                Verdict::Failed(Errno::INTR.into())
            }
        }
    }

    fn due(&self, step: u64, demand: Demand, owes_bytes: impl Fn() -> bool) -> Option<Fault> {
        let retried = step > 0 && self.interrupted == Some(step - 1);
        let due = |(at, fault, repeat): &&(u64, Fault, Repeat)| {
            let now = match repeat {
                Repeat::Once => step == *at,
                Repeat::Forever => step >= *at,
            };
            now && fault.can_strike(demand, &owes_bytes)
                && !(retried && *fault == Fault::Interrupted)
        };
        self.planned.iter().find(due).map(|(_, fault, _)| *fault)
    }
}

impl Fault {
    fn can_strike(self, demand: Demand, owes_bytes: impl Fn() -> bool) -> bool {
        match self {
            Self::Eio => true,
            Self::Enospc => matches!(
                demand,
                Demand::Write | Demand::Space | Demand::SpaceAndDescriptor
            ),
            Self::Emfile => matches!(demand, Demand::Descriptor | Demand::SpaceAndDescriptor),
            Self::WriteBack | Self::WriteBackTold => owes_bytes(),
            Self::ShortOfSpace => demand == Demand::Write,
            Self::Short | Self::Interrupted => matches!(demand, Demand::Read | Demand::Write),
        }
    }
}
