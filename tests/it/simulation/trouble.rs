//! What goes wrong with the disk while the machine goes on.

use sessionlog::testing::disk_model::{Fault, MemoryStorage, Repeat, SyncFault};

use crate::crash::model::Loss;
use crate::simulation::draw::Draw;
use crate::simulation::tally::Tally;

/// What was made to go wrong since the store was opened, and what of it
/// happened.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each may be so or not, whatever the others are"
)]
pub(crate) struct Trouble {
    /// Faults that the engine must not notice: short calls and interruptions.
    mild_only: bool,
    planned: bool,
    on_sync: SyncFault,
    hits_seen: u64,
    off_at: Option<u64>,
    full: bool,
    /// Write-back was to fail, of which nobody knows for a while: what is read
    /// meanwhile must be what was written.
    silent: bool,
    /// Descriptors were to be lacking.
    starved: bool,
    /// Space or descriptors were lacking at some time, or were to.
    lacked: bool,
    /// Something else was to fail.
    other: bool,
    met: bool,
    /// Whether something went wrong on an earlier disk.
    met_before: bool,
    reverted: bool,
    /// A sync of names failed: what the page cache says of them is nothing that
    /// a restarted process would meet.
    names_in_doubt: bool,
    /// A call failed in another way than for lack of space or descriptors.
    broken: bool,
}

const MILD: [Fault; 2] = [Fault::Short, Fault::Interrupted];
const SYNC_FAULTS: [SyncFault; 3] = [
    SyncFault::CleanPageStaleDisk,
    SyncFault::ContentReverted,
    SyncFault::ReportedFailedButLanded,
];

impl Trouble {
    /// Plans a failing call among the next few.
    pub(crate) fn plan(&mut self, storage: &MemoryStorage, draw: &mut Draw, tally: &mut Tally) {
        let fault = match draw.below(10) {
            0..=1 => Fault::Eio,
            2 => Fault::Enospc,
            3..=4 => Fault::Emfile,
            5 => Fault::WriteBack,
            6 => Fault::WriteBackTold,
            _ => draw.pick(&MILD),
        };
        self.plan_fault(fault, storage, draw);
        tally.planned += 1;
    }

    fn plan_fault(&mut self, fault: Fault, storage: &MemoryStorage, draw: &mut Draw) {
        let mild = MILD.contains(&fault);
        self.mild_only = mild && (self.mild_only || !self.planned);
        self.planned = true;
        self.silent |= matches!(fault, Fault::WriteBack | Fault::WriteBackTold);
        self.starved |= fault == Fault::Emfile;
        self.lacked |= matches!(fault, Fault::Emfile | Fault::Enospc);
        self.other |= fault != Fault::Emfile && !mild;
        let on_sync = draw.pick(&SYNC_FAULTS);
        self.on_sync = if self.silent {
            SyncFault::CleanPageStaleDisk
        } else {
            on_sync
        };
        storage.on_sync_failure(self.on_sync);
        let repeat = if draw.one_in(4) {
            Repeat::Forever
        } else {
            Repeat::Once
        };
        storage.fail_at(storage.steps() + draw.next() % 40, fault, repeat);
    }

    /// Leaves room for so many more bytes.
    pub(crate) fn fill(&mut self, storage: &MemoryStorage, room: u64) {
        let used: usize = storage.dump().values().map(Vec::len).sum();
        storage.capacity(used as u64 + room);
        self.full = true;
        self.lacked = true;
        self.met = true;
    }

    /// Plans a power cut among the next few calls.
    pub(crate) fn cut_power(&mut self, storage: &MemoryStorage, draw: &mut Draw) {
        let step = storage.steps() + draw.next() % 60;
        storage.crash_at(step);
        self.off_at = Some(step);
    }

    /// Whatever was planned is no more; what happened, did.
    pub(crate) fn heal(&mut self, storage: &MemoryStorage) {
        self.look(storage);
        storage.heal();
        storage.capacity(u64::MAX);
        if !self.is_off(storage) {
            storage.crash_at(u64::MAX);
            self.off_at = None;
        }
        self.full = false;
        self.starved = false;
        self.silent = false;
        self.other = false;
        self.planned = false;
    }

    /// Whether space or descriptors are lacking.
    pub(crate) fn is_short(&self) -> bool {
        self.full || self.starved
    }

    /// Whether a command may have been refused, and those after it not, before anybody
    /// was told.
    pub(crate) fn lacked(&self) -> bool {
        self.lacked
    }

    /// Whether nothing but a lack of space or descriptors kept anybody from anything.
    pub(crate) fn was_short_only(&self) -> bool {
        self.met && !self.broken && self.off_at.is_none()
    }

    /// Looks which of the plans came true.
    pub(crate) fn look(&mut self, storage: &MemoryStorage) {
        self.met |= self.is_off(storage);
        if storage.faults_hit() == self.hits_seen {
            return;
        }
        self.hits_seen = storage.faults_hit();
        if self.mild_only {
            return;
        }
        self.met = true;
        if !self.other {
            return;
        }
        self.broken = true;
        self.reverted |= self.on_sync == SyncFault::ContentReverted;
        self.names_in_doubt |= storage.last_calls(512).iter().any(|call| {
            call.contains(" failed: ") && (call.contains("sync_dir") || call.contains("sync_all"))
        });
    }

    pub(crate) fn is_off(&self, storage: &MemoryStorage) -> bool {
        self.off_at.is_some_and(|step| storage.steps() > step)
    }

    /// Whether a failed sync may have taken back what was written.
    pub(crate) fn may_revert(&self) -> bool {
        self.reverted || self.on_sync == SyncFault::ContentReverted
    }

    /// Whether something went wrong since the store was last found whole.
    pub(crate) fn met(&self) -> bool {
        self.met || self.met_before
    }

    /// Whether something went wrong on this disk.
    pub(crate) fn met_here(&mut self, storage: &MemoryStorage) -> bool {
        self.look(storage);
        self.met
    }

    /// Whether a machine in this state runs on, so that its processes can be
    /// restarted.
    pub(crate) fn may_go_on(&self, storage: &MemoryStorage) -> bool {
        !self.is_off(storage) && !self.names_in_doubt
    }

    /// What the death of the process takes with it: where the page cache lost
    /// what it had promised to write, as much as a power loss.
    pub(crate) fn loss_by_death(&self) -> Loss {
        if self.reverted {
            Loss::Power
        } else {
            Loss::Process
        }
    }

    /// The disk is another one; what was answered meanwhile stays in doubt.
    pub(crate) fn forget_disk(&mut self) {
        let (met_before, reverted, lacked) = (self.met(), self.reverted, self.lacked);
        *self = Self {
            lacked,
            met_before,
            reverted,
            ..Self::default()
        };
    }

    /// The store was opened and looked at: nothing is in doubt any more.
    pub(crate) fn forget(&mut self, storage: &MemoryStorage) {
        *self = Self {
            hits_seen: storage.faults_hit(),
            ..Self::default()
        };
    }
}
