//! What is left after a crash.

use std::collections::{BTreeMap, BTreeSet};

use super::draw::Draw;
use super::inode::Survival;
use super::names::{DirectoryNames, Ino, NameSurvival};
use super::tree::{Node, ROOT, Tree, What};
use super::write_back::Errors;

/// What a crash leaves of the changes that were not synced. A file system may
/// leave any of these, and many more that [`Image::Random`] draws from.
///
/// What was synced is in every image. Data and size of a file persist
/// separately, and each from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// The process died and the machine did not: everything is there, and what
    /// was not synced is still owed to the disk. Of write-back that failed,
    /// somebody was told by now.
    ProcessDeath,
    /// Power loss: nothing that was not synced.
    AllLost,
    /// Power loss: everything.
    AllKept,
    /// Power loss: every name, and of each file its size and the sectors that
    /// its last change touched.
    LastWriteOnly,
    /// Power loss: every name and size and no data, so that what was appended
    /// reads as zeros.
    SizeWithoutData,
    /// Power loss: all data and no name, so that what was created is gone and
    /// what was replaced or removed is back.
    DataWithoutName,
    /// Power loss: the later half of all changes without the earlier half. A
    /// name keeps what it builds on; a sector is as it was last.
    Reversed,
    /// Power loss: every 512- or 4096-byte piece of a file, its size, and the
    /// names each as of some moment since their last sync. The same seed leaves
    /// the same image.
    Random(u64),
}

impl Image {
    /// Every image but the random ones.
    pub const NAMED: [Self; 7] = [
        Self::ProcessDeath,
        Self::AllLost,
        Self::AllKept,
        Self::LastWriteOnly,
        Self::SizeWithoutData,
        Self::DataWithoutName,
        Self::Reversed,
    ];
}

impl Tree {
    /// The tree as the next process to look finds it.
    pub(super) fn after(&self, image: Image) -> Self {
        let (data, names) = match image {
            Image::ProcessDeath => return self.after_process_death(),
            Image::AllLost => (Survival::Nothing, NameSurvival::Nothing),
            Image::AllKept => (Survival::Everything, NameSurvival::Everything),
            Image::LastWriteOnly => (Survival::Last, NameSurvival::Everything),
            Image::SizeWithoutData => (Survival::Size, NameSurvival::Everything),
            Image::DataWithoutName => (Survival::Everything, NameSurvival::Nothing),
            Image::Reversed => {
                let moment = self.middle_of_pending();
                (Survival::Since(moment), NameSurvival::Since(moment))
            }
            Image::Random(seed) => {
                let draw = Draw::new(seed);
                (Survival::Torn(draw.clone()), NameSurvival::Drawn(draw))
            }
        };
        self.after_power_loss(&data, &names)
    }

    fn after_process_death(&self) -> Self {
        let named = self.names.mentioned();
        let kept = |(ino, _): &(&Ino, &Node)| **ino == ROOT || named.contains(ino);
        let nodes = self.nodes.iter().filter(kept);
        let nodes = nodes.map(|(ino, node)| {
            let mut kept = node.detached(node.what.clone());
            kept.errors = node.errors.told();
            (*ino, kept)
        });
        let mut tree = self.with(nodes.collect(), self.names.clone());
        tree.errors = self.errors.told();
        tree
    }

    fn after_power_loss(&self, data: &Survival, names: &NameSurvival) -> Self {
        let mut names = self.names.after_power_loss(names);
        let found = reachable(&names);
        names.retain(&found);
        let nodes = found.iter().filter_map(|ino| {
            let node = self.nodes.get(ino)?;
            let what = match &node.what {
                What::File(inode) => What::File(inode.after_power_loss(&data.about(*ino))),
                other => other.clone(),
            };
            Some((*ino, node.detached(what)))
        });
        self.with(nodes.collect(), names)
    }

    fn with(&self, nodes: BTreeMap<Ino, Node>, names: DirectoryNames) -> Self {
        Self {
            nodes,
            names,
            errors: Errors::default(),
            clock: self.clock,
            capacity: self.capacity,
            next: self.next,
            folds: self.folds,
            collect_above: self.collect_above,
        }
    }

    /// The moment that as many pending changes follow as precede.
    fn middle_of_pending(&self) -> u64 {
        let mut moments: Vec<u64> = self.names.pending_seqs().collect();
        for node in self.nodes.values() {
            if let What::File(inode) = &node.what {
                moments.extend(inode.pending_seqs());
            }
        }
        moments.sort_unstable();
        moments.get(moments.len() / 2).copied().unwrap_or(u64::MAX)
    }
}

impl Survival {
    /// The same for one file: what is drawn for it is its own.
    fn about(&self, file: Ino) -> Self {
        match self {
            Self::Torn(draw) => Self::Torn(draw.about(file)),
            other => other.clone(),
        }
    }
}

/// Every node that a path leads to.
fn reachable(names: &DirectoryNames) -> BTreeSet<Ino> {
    let mut found = BTreeSet::from([ROOT]);
    let mut unread = vec![ROOT];
    while let Some(directory) = unread.pop() {
        for ino in names
            .entries(directory)
            .into_iter()
            .flatten()
            .map(|(_, ino)| *ino)
        {
            if found.insert(ino) {
                unread.push(ino);
            }
        }
    }
    found
}
