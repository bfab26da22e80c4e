//! Keeps track of the primary. Reads and writes that another server answered do not count.
//!
//! A connection is checked when it is made, and bears the pass that it got. A server of an older
//! timeline was replaced by a standby that was promoted. A server of another system, for instance a
//! restored dump, replaces the one before: it came later to the same address. Once a newer server
//! is known, every connection to an older one is given up, and its pending work is cancelled.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::sync::watch;

/// A server, in the state at the time when a connection to it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Server {
    /// The database cluster: the number that `initdb` gave it. 0 if the role may not ask.
    pub(crate) system: i64,
    pub(crate) timeline: u64,
    /// True if its commits wait for replicas.
    pub(crate) is_synchronous: bool,
}

/// The admission of a connection. It holds until a newer server is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Epoch(u64),
    /// A server without timelines, which fences by itself.
    Always,
}

/// The knowledge about the servers that all connections of a store share.
#[derive(Debug)]
pub(crate) struct Fence {
    met: Mutex<Met>,
    /// The number of servers that replaced another.
    epoch: watch::Sender<u64>,
}

/// Another server took a primary's place while a store was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failover {
    /// The time when the store learned of it.
    pub at: OffsetDateTime,
    /// The timelines of the server before and the one after.
    pub timelines: (u64, u64),
    /// True if the server after may lack messages that were acknowledged. This is so if the commits
    /// of the server before did not wait for a standby, or if the server after is not a standby of
    /// it at all.
    pub may_have_lost: bool,
}

/// Number of failovers that are remembered.
const REMEMBERED: usize = 16;

/// The time for which a primary is not trusted to wait after its commits did not wait for replicas.
/// Its processes learn of a setting one after the other.
const DISTRUST: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Met {
    primary: Option<Server>,
    /// The last time when the primary did not wait for replicas.
    alone_at: Option<Instant>,
    failovers: VecDeque<Failover>,
    /// The systems that another one replaced.
    replaced: Vec<i64>,
}

impl Fence {
    pub(crate) fn new() -> Self {
        Self {
            met: Mutex::default(),
            epoch: watch::Sender::new(0),
        }
    }

    /// Admits a server, which replaces the primary if it is newer.
    ///
    /// # Errors
    /// The reason, if the server was replaced.
    pub(crate) fn admit(&self, server: Server) -> Result<Pass, String> {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let is_newer = match met.primary {
            Some(known) if known.system == server.system => {
                let (own, newest) = (server.timeline, known.timeline);
                if own < newest {
                    return Err(format!(
                        "the server is on timeline {own}, and was replaced by one on {newest}"
                    ));
                }
                own > newest
            }
            Some(known) => {
                if met.replaced.contains(&server.system) {
                    return Err(format!(
                        "the server is of system {}, and was replaced by one of system {}; if it is \
                         to be used again, restart this program",
                        server.system, known.system
                    ));
                }
                met.replaced.push(known.system);
                true
            }
            None => false,
        };
        let before = met.primary.replace(server);
        if !server.is_synchronous {
            met.alone_at = Some(Instant::now());
        } else if is_newer {
            met.alone_at = None;
        } else if let (Some(before), Some(now)) = (before, &mut met.primary) {
            // Only a commit shows that commits wait again.
            now.is_synchronous = before.is_synchronous;
        }
        if let Some(before) = before.filter(|_| is_newer) {
            let failover = Failover {
                at: OffsetDateTime::now_utc(),
                timelines: (before.timeline, server.timeline),
                may_have_lost: !before.is_synchronous || before.system != server.system,
            };
            if failover.may_have_lost {
                tracing::error!(
                    ?before, now = ?server,
                    "another server is the primary, and may lack messages that were acknowledged"
                );
            } else {
                tracing::warn!(?before, now = ?server, "another server is the primary");
            }
            met.failovers.truncate(REMEMBERED - 1);
            met.failovers.push_front(failover);
            self.epoch.send_modify(|epoch| *epoch += 1);
        }
        // This is read under the lock, so that a pass is never of a later epoch than its server.
        Ok(Pass::Epoch(*self.epoch.borrow()))
    }

    /// Notes whether the server of a pass makes commits wait for replicas. A report that they wait
    /// counts only after a commit: all earlier commits are on a replica then.
    pub(crate) fn note(&self, pass: Pass, is_synchronous: bool, is_committed: bool) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        // This is read under the lock, in which passes are given.
        if pass == Pass::Always || !self.is_current(pass) {
            return;
        }
        let is_trusted = met.alone_at.is_none_or(|at| at.elapsed() > DISTRUST);
        let Some(primary) = &mut met.primary else {
            return;
        };
        if !is_synchronous {
            primary.is_synchronous = false;
            met.alone_at = Some(Instant::now());
        } else if is_committed && is_trusted {
            primary.is_synchronous = true;
        }
    }

    /// Returns the last failovers, the newest first.
    pub(crate) fn failovers(&self) -> Vec<Failover> {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.failovers.iter().copied().collect()
    }

    /// True if no newer server is known than the one that got this pass.
    pub(crate) fn is_current(&self, pass: Pass) -> bool {
        pass == Pass::Always || pass == Pass::Epoch(*self.epoch.borrow())
    }

    /// Waits until a newer server is known.
    pub(crate) async fn replaced(&self, pass: Pass) {
        let mut epoch = self.epoch.subscribe();
        let newer = epoch.wait_for(|epoch| pass != Pass::Always && pass != Pass::Epoch(*epoch));
        if newer.await.is_err() {
            // The sender lives as long as this does.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(system: i64, timeline: u64) -> Server {
        Server {
            system,
            timeline,
            is_synchronous: false,
        }
    }

    #[test]
    fn a_promoted_server_replaces_the_one_before_for_all_connections() {
        let fence = Fence::new();
        let old = fence.admit(server(7, 1)).unwrap();
        assert_eq!(fence.admit(server(7, 1)), Ok(old));
        let new = fence.admit(server(7, 2)).unwrap();
        assert!(!fence.is_current(old) && fence.is_current(new));
        assert!(fence.admit(server(7, 1)).is_err());
        assert!(fence.is_current(Pass::Always));
    }

    #[test]
    fn a_primary_that_stopped_to_wait_for_replicas_may_have_lost() {
        let waiting = |timeline| Server {
            is_synchronous: true,
            ..server(7, timeline)
        };
        let may_have_lost = |act: &dyn Fn(&Fence, Pass)| {
            let fence = Fence::new();
            let pass = fence.admit(waiting(1)).unwrap();
            act(&fence, pass);
            fence.admit(waiting(2)).unwrap();
            fence.failovers()[0].may_have_lost
        };
        assert!(!may_have_lost(&|_, _| {}));
        assert!(!may_have_lost(&|fence, pass| fence.note(pass, true, true)));
        assert!(may_have_lost(&|fence, pass| fence.note(pass, false, true)));
        assert!(may_have_lost(&|fence, _| {
            fence.admit(server(7, 1)).unwrap();
        }));
        // The last state that one process of the server saw is not the state of all of them.
        assert!(may_have_lost(&|fence, pass| {
            fence.note(pass, false, false);
            fence.admit(waiting(1)).unwrap();
            fence.note(pass, true, true);
        }));
        // That was long ago, and since then a commit waited.
        assert!(!may_have_lost(&|fence, pass| {
            fence.note(pass, false, true);
            let long_ago = Instant::now().checked_sub(DISTRUST * 2);
            fence.met.lock().unwrap().alone_at = long_ago;
            fence.note(pass, true, true);
        }));
    }

    #[test]
    fn another_system_replaces_the_one_before_whatever_its_timeline() {
        let fence = Fence::new();
        let old = fence.admit(server(7, 5)).unwrap();
        let new = fence.admit(server(8, 1)).unwrap();
        assert!(!fence.is_current(old) && fence.is_current(new));
        assert!(fence.admit(server(7, 6)).unwrap_err().contains("restart"));
        assert!(fence.admit(server(8, 2)).is_ok());
    }
}
