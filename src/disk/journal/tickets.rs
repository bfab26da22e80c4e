//! The tickets of a batch: how many go out at a time, and who is told of them.

use super::committer::{Outcome, Signal, Ticket};
use super::group::Batch;

/// The most bytes in one batch, unless a single producer's records are more. The
/// commit record states a batch's length in 32 bits.
pub(super) const MAX_BATCH: usize = 1 << 30;

/// Takes the first tickets off a batch, as many as fit into one.
pub(super) fn split(batch: &mut Batch<Ticket>) -> Batch<Ticket> {
    let (mut count, mut len) = (0, 0);
    for ticket in &batch.tickets {
        if count > 0 && len + ticket.len > MAX_BATCH {
            break;
        }
        count += 1;
        len += ticket.len;
    }
    let mut part = Batch::new();
    part.durable = batch.durable;
    part.tickets = batch.tickets.drain(..count).collect();
    part.bytes = batch.bytes.drain(..len).collect();
    part
}

/// One signal per producer, for its newest ticket: tickets of one producer are
/// settled in the order they were queued.
pub(super) fn signal_each(tickets: &[Ticket], outcome: &Outcome, tell: &mut dyn FnMut(Signal)) {
    let mut newest: Vec<Ticket> = Vec::new();
    for ticket in tickets {
        match newest.iter_mut().find(|t| t.producer == ticket.producer) {
            Some(t) => *t = *ticket,
            None => newest.push(*ticket),
        }
    }
    for ticket in newest {
        tell(Signal {
            producer: ticket.producer,
            number: ticket.number,
            outcome: outcome.clone(),
        });
    }
}
