//! Who goes next.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

use crate::dice::Dice;

/// Decides who goes next, by one of three ways that find different faults.
#[derive(Debug)]
pub(crate) struct Order {
    seed: u64,
    dice: Dice,
    way: Way,
    begun: bool,
    /// Steps so far, for who asks in the end.
    steps: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Way {
    /// Anyone.
    Uniform,
    /// Whoever went last, most of the time: long stretches, and few switches.
    Sticky(usize),
    /// Whoever has the highest priority, which sinks below all others once in so many
    /// steps (PCT): a thread that is overtaken stays so for long.
    Priorities {
        of: HashMap<TaskId, i64>,
        lowest: i64,
        sinks_in: usize,
    },
}

impl Order {
    pub(crate) fn new(seed: u64, steps: Arc<AtomicU64>) -> Self {
        let mut dice = Dice::new(seed ^ 0x5C4E_D01E);
        let way = match dice.below(4) {
            0 => Way::Uniform,
            1 => Way::Sticky(2 << dice.below(5)),
            _ => Way::Priorities {
                of: HashMap::new(),
                lowest: 0,
                sinks_in: 16 << dice.below(6),
            },
        };
        Self {
            seed,
            dice,
            way,
            begun: false,
            steps,
        }
    }
}

impl Scheduler for Order {
    fn new_execution(&mut self) -> Option<Schedule> {
        (!std::mem::replace(&mut self.begun, true)).then(|| Schedule::new(self.seed))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        self.steps.fetch_add(1, Ordering::Relaxed);
        let Self { dice, way, .. } = self;
        let anyone = |dice: &mut Dice| runnable[dice.below(runnable.len())].id();
        let goes_on = current.filter(|at| !is_yielding && runnable.iter().any(|t| t.id() == *at));
        Some(match way {
            Way::Uniform => anyone(dice),
            Way::Sticky(stretch) => match goes_on {
                Some(current) if !dice.once_in(*stretch) => current,
                _ => anyone(dice),
            },
            Way::Priorities {
                of,
                lowest,
                sinks_in,
            } => {
                for task in runnable {
                    let first = || dice.below(1 << 20) as i64;
                    of.entry(task.id()).or_insert_with(first);
                }
                if let Some(current) = current
                    && (is_yielding || dice.once_in(*sinks_in))
                {
                    *lowest -= 1;
                    of.insert(current, *lowest);
                }
                let highest = runnable.iter().max_by_key(|task| of[&task.id()])?;
                highest.id()
            }
        })
    }

    fn next_u64(&mut self) -> u64 {
        self.dice.below(usize::MAX) as u64
    }
}
