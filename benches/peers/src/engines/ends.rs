//! Where each session ends.

use crate::support::Outcome;

/// The number of the next message of every session, looked up in the store only
/// at a session's first use.
pub(crate) struct Ends(Vec<Option<u32>>);

/// Where an append goes.
pub(crate) struct Place {
    pub(crate) number: u32,
    /// The session was not there before.
    pub(crate) is_first: bool,
}

impl Ends {
    pub(crate) fn new(sessions: usize) -> Self {
        Self(vec![None; sessions])
    }

    /// Takes the session's next number. `look_up` says how many the store has
    /// given out.
    pub(crate) fn take(
        &mut self,
        session: usize,
        look_up: impl FnOnce() -> Outcome<u32>,
    ) -> Outcome<Place> {
        let number = self.of(session, look_up)?;
        self.0[session] = Some(number + 1);
        Ok(Place {
            number,
            is_first: number == 0,
        })
    }

    /// The session's next number.
    pub(crate) fn of(
        &mut self,
        session: usize,
        look_up: impl FnOnce() -> Outcome<u32>,
    ) -> Outcome<u32> {
        let number = match self.0[session] {
            Some(number) => number,
            None => look_up()?,
        };
        self.0[session] = Some(number);
        Ok(number)
    }
}

/// A message's key: those of a session lie together, in their order.
pub(crate) fn place_key(session: usize, number: u32) -> u64 {
    (session as u64) << 32 | u64::from(number)
}
