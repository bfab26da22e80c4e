//! Which workload a name stands for.

use crate::options::{Name, Options};
use crate::rounds::{Played, Rounds};
use crate::support::Outcome;
use crate::support::bare::Until;
use crate::workloads::append::Appends;
use crate::workloads::fresh::Fresh;
use crate::workloads::mixed::Mixed;
use crate::workloads::open::Opens;
use crate::workloads::read::Reads;
use crate::workloads::soak::Soak;
use crate::workloads::truncate::Truncations;

/// How large W6's sessions are, before and after.
const TRUNCATED_FROM: usize = 1000;
const TRUNCATED_TO: usize = 100;

/// Messages of each of W4's sessions.
const MIXED_MESSAGES: usize = 100;

/// One round of one workload.
pub(crate) fn play(
    name: Name,
    options: &Options,
    rounds: &Rounds<'_>,
    round: usize,
) -> Outcome<Played> {
    let sizes = options.sizes();
    let (warm_up, window) = (options.warm_up(), options.window());
    let appends = |until| Appends {
        until,
        producers: options.producers.clone(),
        sessions: sizes.append_sessions,
        warm_up,
        window,
    };
    match name {
        Name::W1 => rounds.play(&appends(Until::Synced), round),
        Name::W2 => rounds.play(&appends(Until::Written), round),
        Name::W3 => {
            let lengths = sizes.history_lengths.clone();
            rounds.play(&Reads { lengths, window }, round)
        }
        Name::W4 => {
            let mixed = Mixed {
                sessions: sizes.mixed_sessions,
                messages: MIXED_MESSAGES,
                warm_up,
                window,
            };
            rounds.play(&mixed, round)
        }
        Name::W5 => {
            let sessions = options.sessions;
            rounds.play(&Opens { sessions }, round)
        }
        Name::W6 => {
            let truncations = Truncations {
                sessions: sizes.truncated_sessions,
                messages: TRUNCATED_FROM,
                keep: TRUNCATED_TO,
                warm_up,
                window,
            };
            rounds.play(&truncations, round)
        }
        Name::W7 => {
            let sessions = sizes.new_sessions;
            rounds.play(&Fresh { sessions }, round)
        }
        Name::W8 => Soak::of(options).play(rounds, round),
    }
}
