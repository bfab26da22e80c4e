//! The group commit: acknowledged after the sync, by the right batch, and
//! poisoned without leaving anybody behind.

use crate::explore::Model;
use sessionlog::testing::journal::group::{Batch, GroupCommit, Linger, Refusal, Taken};
use sessionlog::testing::sync::Mutex;
use sessionlog::testing::sync::slot::{Promise, slot};
use sessionlog::testing::sync::thread::{JoinHandle, spawn};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "group_commit",
        bound: 3,
        at_least: 2_000,
        runs: &[nobody_is_acknowledged_before_their_sync],
    },
    Model {
        name: "group_close",
        bound: 3,
        at_least: 700,
        runs: &[a_closing_group_commits_what_it_accepted],
    },
    Model {
        name: "group_poison",
        bound: 3,
        at_least: 400,
        runs: &[a_ticket_ends_in_one_place],
    },
    Model {
        name: "group_linger",
        bound: 4,
        at_least: 2,
        runs: &[a_lingering_committer_is_let_go],
    },
    Model {
        name: "group_asked",
        bound: 4,
        at_least: 10,
        runs: &[a_sync_that_is_asked_for_comes],
    },
];

/// Waits as a committer does, and takes what came.
fn take<T>(group: &GroupCommit<T>, batch: &mut Batch<T>, linger: Option<&Linger>) -> Taken {
    loop {
        group.wait(None, linger);
        match group.take(batch) {
            Taken::Nothing => {}
            taken => return taken,
        }
    }
}

/// Bytes the committer has written, and how many of them survive power loss.
#[derive(Default)]
struct Disk {
    written: Vec<u8>,
    synced: usize,
}

/// Two producers, one of which comes twice, against a committer on its own
/// thread: whoever is acknowledged finds its bytes among the synced ones.
fn nobody_is_acknowledged_before_their_sync() {
    let group = Arc::new(GroupCommit::new());
    let disk = Arc::new(Mutex::new(Disk::default()));
    let committer = committing(&group, &disk);
    let other = {
        let (group, disk) = (Arc::clone(&group), Arc::clone(&disk));
        spawned("producer", move || submit_and_check(&group, &disk, b'b'))
    };
    submit_and_check(&group, &disk, b'a');
    submit_and_check(&group, &disk, b'c');
    other.join().expect("did not panic");
    group.close();
    committer.join().expect("did not panic");

    let mut written = disk.lock().written.clone();
    written.sort_unstable();
    assert_eq!(written, b"abc", "lost or written twice");
}

fn submit_and_check(group: &GroupCommit<Promise<()>>, disk: &Mutex<Disk>, record: u8) {
    let (acknowledged, reply) = slot();
    group
        .submit(&[record], acknowledged, true)
        .expect("neither closed nor poisoned");
    assert_eq!(reply.wait(), Some(()), "accepted and then forgotten");
    let disk = disk.lock();
    assert!(
        disk.written[..disk.synced].contains(&record),
        "acknowledged before it was synced"
    );
}

/// The committer of the store in small: write, sync, acknowledge.
fn committing(group: &Arc<GroupCommit<Promise<()>>>, disk: &Arc<Mutex<Disk>>) -> JoinHandle {
    let (group, disk) = (Arc::clone(group), Arc::clone(disk));
    spawned("committer", move || {
        let mut batch = Batch::new();
        while take(&group, &mut batch, None) == Taken::Batch {
            disk.lock().written.extend_from_slice(&batch.bytes);
            {
                let mut disk = disk.lock();
                disk.synced = disk.written.len();
            }
            for ticket in batch.tickets.drain(..) {
                assert!(ticket.fulfil(()).is_none(), "nobody polls");
            }
        }
    })
}

/// Two producers against a close: accepted is committed, refused is not.
fn a_closing_group_commits_what_it_accepted() {
    let group = Arc::new(GroupCommit::new());
    let disk = Arc::new(Mutex::new(Disk::default()));
    let committer = committing(&group, &disk);
    let producers = [b'a', b'b'].map(|record| {
        let (group, disk) = (Arc::clone(&group), Arc::clone(&disk));
        spawned("producer", move || {
            let (acknowledged, reply) = slot();
            match group.submit(&[record], acknowledged, true) {
                Ok(()) => assert_eq!(reply.wait(), Some(()), "accepted and then forgotten"),
                Err(refused) => {
                    assert_eq!(refused.reason, Refusal::Closed);
                    assert!(
                        !disk.lock().written.contains(&record),
                        "refused and written"
                    );
                }
            }
        })
    });
    group.close();
    for thread in producers.into_iter().chain([committer]) {
        thread.join().expect("did not panic");
    }
}

/// A committer waits for company that never comes, for the store closes. Time
/// stands still: nothing else can wake it.
fn a_lingering_committer_is_let_go() {
    let group = Arc::new(GroupCommit::new());
    group.submit(&[1], 1, true).expect("is open");
    let closing = {
        let group = Arc::clone(&group);
        spawned("closing", move || group.close())
    };
    let linger = Linger {
        wanted: 2,
        timeout: Duration::from_secs(1),
    };
    let mut batch = Batch::new();
    let taken = take(&group, &mut batch, Some(&linger));
    assert_eq!(taken, Taken::Batch);
    assert_eq!(batch.tickets, [1]);
    closing.join().expect("did not panic");
}

/// Where a ticket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Refused(u8),
    Returned(u8),
    Taken(u8),
}

/// Two producers, a committer and a failure reported from elsewhere.
fn a_ticket_ends_in_one_place() {
    let group = Arc::new(GroupCommit::new());
    let ends = Arc::new(Mutex::new(Vec::new()));
    let producers = [1, 2].map(|ticket| {
        let (group, ends) = (Arc::clone(&group), Arc::clone(&ends));
        spawned("producer", move || {
            if let Err(refused) = group.submit(&[ticket], ticket, true) {
                assert_eq!(refused.reason, Refusal::Poisoned(Arc::from("sync failed")));
                ends.lock().push(End::Refused(refused.ticket));
            }
        })
    });
    let committer = {
        let (group, ends) = (Arc::clone(&group), Arc::clone(&ends));
        spawned("committer", move || {
            let mut batch = Batch::new();
            loop {
                let failed = group.poisoned().is_some();
                if take(&group, &mut batch, None) != Taken::Batch {
                    break;
                }
                assert!(!failed, "accepted after the failure");
                assert_eq!(batch.bytes, batch.tickets, "bytes without their tickets");
                ends.lock().extend(batch.tickets.drain(..).map(End::Taken));
            }
        })
    };
    let returned = group.poison(Arc::from("sync failed"));
    ends.lock().extend(returned.into_iter().map(End::Returned));
    for producer in producers {
        producer.join().expect("did not panic");
    }
    group.close();
    committer.join().expect("did not panic");

    let mut tickets: Vec<_> = ends.lock().iter().copied().map(ticket_of).collect();
    tickets.sort_unstable();
    assert_eq!(tickets, [1, 2], "{:?}", ends.lock());
}

fn ticket_of(end: End) -> u8 {
    match end {
        End::Refused(ticket) | End::Returned(ticket) | End::Taken(ticket) => ticket,
    }
}

fn spawned(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle {
    spawn(name, body).expect("loom has room for it")
}

/// A buffered record, and then a caller who waits for its sync: the committer, who
/// sleeps until something comes, syncs without anything coming.
fn a_sync_that_is_asked_for_comes() {
    let group = Arc::new(GroupCommit::new());
    let committer = {
        let group = Arc::clone(&group);
        spawned("committer", move || {
            let mut batch = Batch::<Promise<()>>::new();
            let mut unsynced = Vec::new();
            // The sleep has no end here: loom never lets a time run out.
            while take(&group, &mut batch, None) != Taken::Closed {
                let idle = batch.tickets.is_empty();
                unsynced.append(&mut batch.tickets);
                if batch.durable || idle {
                    for promise in unsynced.drain(..) {
                        let _ = promise.fulfil(());
                    }
                }
            }
        })
    };
    let (promise, reply) = slot();
    group
        .submit(b"a", promise, false)
        .expect("neither closed nor poisoned");
    group.ask_for_sync();
    assert_eq!(reply.wait(), Some(()), "nobody synced it");
    group.close();
    committer.join().expect("did not panic");
}
