use super::batch::KEPT_BYTES;
use super::{Batch, GroupCommit, Lead, Led, Linger, Refusal, Taken};
use crate::disk::journal::committer::Ticket;
use crate::ground::sync::thread;
use std::sync::Arc;
use std::time::Duration;

/// Waits as a committer does, and takes what came.
fn take<T>(group: &GroupCommit<T>, batch: &mut Batch<T>) -> Taken {
    lingering_take(group, batch, None).0
}

fn lingering_take<T>(
    group: &GroupCommit<T>,
    batch: &mut Batch<T>,
    linger: Option<&Linger>,
) -> (Taken, Option<bool>) {
    loop {
        let came = group.wait(None, linger);
        match group.take(batch) {
            Taken::Nothing => {}
            taken => return (taken, came),
        }
    }
}

/// A group whose committer sleeps until `until` is true of what it takes.
fn sleeping<T: Send + 'static>(
    group: &Arc<GroupCommit<T>>,
    until: impl Fn(Taken) -> bool + Send + 'static,
) -> thread::JoinHandle {
    let committer = Arc::clone(group);
    let slept = thread::spawn("committer", move || {
        let mut batch = Batch::new();
        while !until(take(&committer, &mut batch)) {}
    });
    while group.state.lock().committer_wants.is_none() {
        std::thread::yield_now();
    }
    slept.unwrap()
}

#[test]
fn a_batch_holds_everything_queued_in_order() {
    let group = GroupCommit::new();
    group.submit(b"one ", 1, false).unwrap();
    group.submit(b"two ", 2, true).unwrap();
    group.submit(b"", 3, false).unwrap();

    let mut batch = Batch::new();
    assert_eq!(take(&group, &mut batch), Taken::Batch);
    assert_eq!(batch.bytes, b"one two ");
    assert_eq!(batch.tickets, [1, 2, 3]);
    assert!(batch.durable);
}

#[test]
fn a_batch_is_durable_only_for_its_own_submissions() {
    let group = GroupCommit::new();
    let mut batch = Batch::new();
    group.submit(b"a", 1, true).unwrap();
    assert_eq!(group.take(&mut batch), Taken::Batch);
    group.submit(b"b", 2, false).unwrap();
    assert_eq!(group.take(&mut batch), Taken::Batch);
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
    assert_eq!(group.take(&mut batch), Taken::Nothing);
    assert!(batch.bytes.is_empty() && batch.tickets.is_empty() && !batch.durable);
    assert_eq!(group.wait(Some(Duration::from_millis(1)), None), None);
}

#[test]
fn a_sync_asked_for_goes_with_what_is_queued_and_is_asked_for_once() {
    let group = GroupCommit::new();
    let mut batch = Batch::new();
    group.ask_for_sync();
    assert_eq!(take(&group, &mut batch), Taken::Idle);
    group.submit(b"a", 1, false).unwrap();
    assert_eq!(take(&group, &mut batch), Taken::Batch);
    assert!(!batch.durable, "asked for before, and done");
    group.ask_for_sync();
    group.submit(b"b", 2, false).unwrap();
    assert_eq!(take(&group, &mut batch), Taken::Batch);
    assert!(batch.durable);
    assert_eq!(group.take(&mut batch), Taken::Nothing);
}

#[test]
fn a_sleeping_committer_is_roused_by_a_submission_and_by_closing() {
    let group = Arc::new(GroupCommit::new());
    let committer = {
        let group = Arc::clone(&group);
        thread::spawn("committer", move || {
            let mut batch = Batch::new();
            assert_eq!(take(&group, &mut batch), Taken::Batch);
            assert_eq!(batch.tickets, [1]);
            assert_eq!(take(&group, &mut batch), Taken::Closed);
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
    assert_eq!(take(&group, &mut batch), Taken::Batch);
    assert_eq!(batch.bytes, b"a");
    assert_eq!(take(&group, &mut batch), Taken::Closed);
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
    assert_eq!(group.take(&mut Batch::new()), Taken::Closed);
}

fn lingering(wanted: usize) -> Linger {
    Linger {
        wanted,
        timeout: Duration::from_mins(1),
    }
}

#[test]
fn a_lingering_take_waits_until_those_answered_before_are_back() {
    let group = Arc::new(GroupCommit::new());
    group.submit(b"a", 1, true).unwrap();
    let other = {
        let group = Arc::clone(&group);
        // Queued before the take looks, its bytes would not be waited for.
        thread::spawn("other", move || {
            while group.state.lock().committer_wants.is_none() {
                std::thread::yield_now();
            }
            group.submit(b"bb", 2, true).unwrap();
        })
    };
    let mut batch = Batch::new();
    let taken = lingering_take(&group, &mut batch, Some(&lingering(3)));
    assert_eq!(taken, (Taken::Batch, Some(true)));
    other.unwrap().join().unwrap();
    assert_eq!(batch.tickets, [1, 2]);
}

#[test]
fn a_lingering_take_waits_for_nobody_who_is_back_already() {
    let group = GroupCommit::new();
    group.submit(b"aa", 1, true).unwrap();
    // Nobody else would end the wait within the minute.
    let taken = lingering_take(&group, &mut Batch::new(), Some(&lingering(2)));
    assert_eq!(taken, (Taken::Batch, Some(true)));
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
    let (taken, _) = lingering_take(&group, &mut batch, Some(&lingering(9)));
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
    let (taken, _) = lingering_take(&group, &mut batch, Some(&lingering(9)));
    other.unwrap().join().unwrap();
    assert_ne!(taken, Taken::Idle, "nobody asked it to come back");
}

#[test]
fn a_huge_buffer_is_not_kept() {
    let group = GroupCommit::new();
    let mut batch = Batch::new();
    group.submit(&vec![0; 2 * KEPT_BYTES], 1, true).unwrap();
    assert_eq!(group.take(&mut batch), Taken::Batch);
    assert_eq!(group.take(&mut batch), Taken::Nothing);
    assert!(batch.bytes.capacity() <= KEPT_BYTES);
}

#[test]
fn a_caller_sees_to_a_record_that_nobody_else_was_told_of() {
    let group = Arc::new(GroupCommit::new());
    assert_eq!(
        group.submit_to_lead(b"a", 1, false, Lead::Write).unwrap(),
        Led::Elsewhere
    );
    assert_eq!(group.take(&mut Batch::new()), Taken::Batch);

    let committer = sleeping(&group, |taken| taken == Taken::Closed);
    assert_eq!(
        group.submit_to_lead(b"b", 2, false, Lead::Write).unwrap(),
        Led::Here
    );
    assert!(group.is_left());
    let mut batch = Batch::new();
    assert_eq!(
        group.take_to_lead(&mut batch, Lead::Write, |len| len == 1),
        Taken::Batch
    );
    assert_eq!((&batch.tickets[..], group.is_left()), (&[2][..], false));
    group.close();
    committer.join().unwrap();
}

#[test]
fn what_a_caller_must_not_see_to_the_committer_is_told_of() {
    let group = Arc::new(GroupCommit::new());
    let woken = |taken| taken == Taken::Batch;
    let committer = sleeping(&group, woken);
    assert_eq!(
        group.submit_to_lead(b"a", 1, true, Lead::Write).unwrap(),
        Led::Elsewhere
    );
    committer.join().unwrap();

    // Too much for a caller.
    let committer = sleeping(&group, woken);
    assert_eq!(
        group.submit_to_lead(b"b", 2, false, Lead::Write).unwrap(),
        Led::Here
    );
    let taken = group.take_to_lead(&mut Batch::new(), Lead::Write, |_| false);
    assert_eq!(taken, Taken::Nothing);
    committer.join().unwrap();

    // Left to one who led, and to be synced.
    let committer = sleeping(&group, woken);
    assert_eq!(
        group.submit_to_lead(b"c", 3, false, Lead::Write).unwrap(),
        Led::Here
    );
    group.state.lock().batch.durable = true;
    assert!(!group.is_left());
    committer.join().unwrap();
}

#[test]
fn a_caller_who_waits_syncs_unless_others_were_in_the_last_batch() {
    let mut batch = Batch::new();
    let group = Arc::new(GroupCommit::new());
    group.submit(b"x", 1, true).unwrap();
    assert_eq!(group.take(&mut batch), Taken::Batch);
    let committer = sleeping(&group, |taken| taken == Taken::Batch);
    assert_eq!(
        group.submit_to_lead(b"y", 2, true, Lead::Sync).unwrap(),
        Led::Here
    );
    let led = group.take_to_lead(&mut batch, Lead::Sync, |_| true);
    assert_eq!((led, batch.durable), (Taken::Batch, true));
    group.submit(b"x", 3, true).unwrap();
    committer.join().unwrap();

    for ticket in [4, 5] {
        group.submit(b"x", ticket, true).unwrap();
    }
    assert_eq!(group.take(&mut batch), Taken::Batch);
    let committer = sleeping(&group, |taken| taken == Taken::Batch);
    assert_eq!(
        group.submit_to_lead(b"y", 6, true, Lead::Sync).unwrap(),
        Led::Elsewhere
    );
    committer.join().unwrap();
}

#[test]
fn while_the_committer_syncs_what_was_before_callers_write_and_sync_nothing() {
    let group = GroupCommit::new();
    let submit = |durable| group.submit_to_lead(b"x", 1, durable, Lead::Sync).unwrap();
    group.set_away(true);
    assert_eq!(submit(false), Led::Here);
    let mut batch = Batch::new();
    let led = group.take_to_lead(&mut batch, Lead::Sync, |_| true);
    assert_eq!((led, batch.durable), (Taken::Batch, false));
    assert_eq!(submit(true), Led::Elsewhere);
    let led = group.take_to_lead(&mut batch, Lead::Sync, |_| true);
    assert_eq!(led, Taken::Nothing);
    group.set_away(false);
    assert_eq!(group.take(&mut batch), Taken::Batch);
    assert_eq!(submit(false), Led::Elsewhere);
}

/// Of those who come back from such a batch one would keep all the others waiting.
#[test]
fn what_a_worker_submits_for_many_callers_at_once_is_company() {
    let mut batch = Batch::new();
    let group = Ticket::group();
    let ticket = |records| Ticket {
        producer: 0,
        number: 1,
        refusals: 0,
        len: 1,
        records,
        frees: false,
    };
    for (changes, led) in [(1, Led::Here), (2, Led::Elsewhere)] {
        group.submit(b"x", ticket(changes), true).unwrap();
        assert_eq!(group.take(&mut batch), Taken::Batch);
        let committer = sleeping(&group, |taken| taken == Taken::Batch);
        let submitted = group.submit_to_lead(b"y", ticket(1), true, Lead::Sync);
        assert_eq!(submitted.unwrap(), led);
        group.leave();
        committer.join().unwrap();
    }
}
