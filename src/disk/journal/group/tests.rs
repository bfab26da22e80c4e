use super::{Batch, GroupCommit, KEPT_BYTES, Linger, Refusal, Taken};
use crate::ground::sync::thread;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_batch_holds_everything_queued_in_order() {
    let group = GroupCommit::new();
    group.submit(b"one ", 1, false).unwrap();
    group.submit(b"two ", 2, true).unwrap();
    group.submit(b"", 3, false).unwrap();

    let mut batch = Batch::new();
    assert_eq!(group.take(&mut batch, None, None), Taken::Batch);
    assert_eq!(batch.bytes, b"one two ");
    assert_eq!(batch.tickets, [1, 2, 3]);
    assert!(batch.durable);
}

#[test]
fn a_batch_is_durable_only_for_its_own_submissions() {
    let group = GroupCommit::new();
    let mut batch = Batch::new();
    group.submit(b"a", 1, true).unwrap();
    assert_eq!(group.try_take(&mut batch), Taken::Batch);
    group.submit(b"b", 2, false).unwrap();
    assert_eq!(group.try_take(&mut batch), Taken::Batch);
    assert_eq!((batch.bytes.as_slice(), batch.durable), (&b"b"[..], false));
}

#[test]
fn nothing_queued_is_idle_and_leaves_the_batch_empty() {
    let group = GroupCommit::<u8>::new();
    let mut batch = Batch {
        bytes: b"old".to_vec(),
        tickets: vec![9],
        durable: true,
    };
    assert_eq!(group.try_take(&mut batch), Taken::Idle);
    assert!(batch.bytes.is_empty() && batch.tickets.is_empty() && !batch.durable);
    let brief = Some(Duration::from_millis(1));
    assert_eq!(group.take(&mut batch, brief, None), Taken::Idle);
}

#[test]
fn a_sync_asked_for_goes_with_what_is_queued_and_is_asked_for_once() {
    let group = GroupCommit::new();
    let mut batch = Batch::new();
    group.ask_for_sync();
    assert_eq!(group.take(&mut batch, None, None), Taken::Idle);
    group.submit(b"a", 1, false).unwrap();
    assert_eq!(group.take(&mut batch, None, None), Taken::Batch);
    assert!(!batch.durable, "asked for before, and done");
    group.ask_for_sync();
    group.submit(b"b", 2, false).unwrap();
    assert_eq!(group.take(&mut batch, None, None), Taken::Batch);
    assert!(batch.durable);
    let brief = Some(Duration::from_millis(1));
    assert_eq!(group.take(&mut batch, brief, None), Taken::Idle);
}

#[test]
fn a_sleeping_committer_is_roused_by_a_submission_and_by_closing() {
    let group = Arc::new(GroupCommit::new());
    let committer = {
        let group = Arc::clone(&group);
        thread::spawn("committer", move || {
            let mut batch = Batch::new();
            assert_eq!(group.take(&mut batch, None, None), Taken::Batch);
            assert_eq!(batch.tickets, [1]);
            assert_eq!(group.take(&mut batch, None, None), Taken::Closed);
        })
    };
    group.submit(b"a", 1, true).unwrap();
    group.close();
    committer.unwrap().join().unwrap();
}

#[test]
fn closing_refuses_new_submissions_and_keeps_queued_ones() {
    let group = GroupCommit::new();
    group.submit(b"a", 1, true).unwrap();
    group.close();
    let refused = group.submit(b"b", 2, true).unwrap_err();
    assert_eq!((refused.ticket, refused.reason), (2, Refusal::Closed));

    let mut batch = Batch::new();
    assert_eq!(group.take(&mut batch, None, None), Taken::Batch);
    assert_eq!(batch.bytes, b"a");
    assert_eq!(group.take(&mut batch, None, None), Taken::Closed);
}

#[test]
fn poison_returns_queued_tickets_and_its_first_reason_stays() {
    let group = GroupCommit::new();
    group.submit(b"a", 1, true).unwrap();
    assert_eq!(group.poison(Arc::from("sync failed")), [1]);
    assert!(group.poison(Arc::from("write failed")).is_empty());
    assert_eq!(group.poisoned().as_deref(), Some("sync failed"));

    group.close();
    let refused = group.submit(b"b", 2, true).unwrap_err();
    let reason = Refusal::Poisoned(Arc::from("sync failed"));
    assert_eq!((refused.ticket, refused.reason), (2, reason));
    assert_eq!(group.try_take(&mut Batch::new()), Taken::Closed);
}

fn lingering(expected: usize) -> Linger {
    Linger {
        expected,
        timeout: Duration::from_mins(1),
        came: None,
    }
}

#[test]
fn a_lingering_take_waits_until_those_answered_before_are_back() {
    let group = Arc::new(GroupCommit::new());
    group.submit(b"a", 1, true).unwrap();
    let other = {
        let group = Arc::clone(&group);
        // Queued before the take looks, its bytes would not be those that come
        // back: the take would wait for as many more.
        thread::spawn("other", move || {
            while group.state.lock().committer_wants.is_none() {
                std::thread::yield_now();
            }
            group.submit(b"bb", 2, true).unwrap();
        })
    };
    let (mut batch, mut linger) = (Batch::new(), lingering(2));
    assert_eq!(
        group.take(&mut batch, None, Some(&mut linger)),
        Taken::Batch
    );
    other.unwrap().join().unwrap();
    assert_eq!((&batch.tickets[..], linger.came), (&[1, 2][..], Some(true)));
}

#[test]
fn a_lingering_take_ends_where_the_store_closes_or_is_poisoned() {
    let group = Arc::new(GroupCommit::new());
    group.submit(b"a", 1, true).unwrap();
    let other = {
        let group = Arc::clone(&group);
        thread::spawn("other", move || group.close())
    };
    let mut batch = Batch::new();
    let taken = group.take(&mut batch, None, Some(&mut lingering(9)));
    assert_eq!((taken, batch.tickets.len()), (Taken::Batch, 1));
    other.unwrap().join().unwrap();

    let group = Arc::new(GroupCommit::new());
    group.submit(b"a", 1, true).unwrap();
    let other = {
        let group = Arc::clone(&group);
        thread::spawn("other", move || {
            drop(group.poison(Arc::from("sync failed")));
            group.close();
        })
    };
    let taken = group.take(&mut batch, None, Some(&mut lingering(9)));
    other.unwrap().join().unwrap();
    assert_ne!(taken, Taken::Idle, "nobody asked it to come back");
}

#[test]
fn a_huge_buffer_is_not_kept() {
    let group = GroupCommit::new();
    let mut batch = Batch::new();
    group.submit(&vec![0; 2 * KEPT_BYTES], 1, true).unwrap();
    assert_eq!(group.try_take(&mut batch), Taken::Batch);
    assert_eq!(group.try_take(&mut batch), Taken::Idle);
    assert!(batch.bytes.capacity() <= KEPT_BYTES);
}
