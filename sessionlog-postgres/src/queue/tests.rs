use std::sync::atomic::{AtomicBool, Ordering};

use sessionlog::{Durability, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::yield_now;

use super::*;
use crate::command::{Order, Outcome, Update, Verb};

type Answer = oneshot::Receiver<Result<Outcome>>;

fn command(key: &str, verb: Verb) -> (Command, Answer) {
    let (answer, answered) = oneshot::channel();
    let order = Order {
        key: key.into(),
        exact: false,
        level: Durability::Durable,
        verb,
    };
    let command = Command {
        session: session_of(key),
        order,
        answer,
        place: None,
        _room: permit(),
    };
    (command, answered)
}

fn permit() -> OwnedSemaphorePermit {
    let room = Arc::new(Semaphore::new(1));
    room.try_acquire_owned().unwrap()
}

/// Queues a command that can share a transaction.
fn add(queue: &Queue, key: &str) -> Answer {
    let (command, answered) = command(key, Verb::Update(Update::default()));
    queue.push(command).unwrap();
    answered
}

fn keys(batch: &Batch) -> Vec<&str> {
    let commands = batch.commands.iter();
    commands.map(|command| &*command.order.key).collect()
}

async fn take(place: &Place) -> Batch {
    place.take().await.unwrap()
}

/// Returns the result of work that a lane is to be roused for. The clock runs while all sleep.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(LATE * 100, work).await;
    done.expect("nobody was roused")
}

/// True if there is nothing for the lane now. The clock stands still.
async fn waits(place: &Place) -> bool {
    let taken = tokio::time::timeout(Duration::ZERO, place.take()).await;
    taken.is_err()
}

#[tokio::test(start_paused = true)]
async fn few_commands_go_at_once_and_more_wait_for_company() {
    let queue = Queue::new(2, 100);
    let lanes = [queue.join(), queue.join(), queue.join()];
    let _a = add(&queue, "a");
    let first = take(&lanes[0]).await;
    let _b = add(&queue, "b");
    let second = take(&lanes[1]).await;
    let _rest = ["c", "d"].map(|key| add(&queue, key));
    assert!(waits(&lanes[2]).await);
    let _e = add(&queue, "e");
    drop(first);
    let third = take(&lanes[0]).await;
    assert_eq!(
        (keys(&second), keys(&third)),
        (vec!["b"], vec!["c", "d", "e"])
    );
}

/// Makes a transaction answer eight sessions' callers after a while.
async fn answer_eight(queue: &Queue, lane: &Place) {
    let _answers: Vec<_> = (0..8).map(|n| add(queue, &n.to_string())).collect();
    let together = take(lane).await;
    assert_eq!(together.commands.len(), 8);
    tokio::time::advance(Duration::from_millis(4)).await;
    drop(together);
}

#[tokio::test(start_paused = true)]
async fn who_was_answered_together_goes_together_again() {
    let queue = Queue::new(2, 100);
    let lanes = [queue.join(), queue.join()];
    answer_eight(&queue, &lanes[0]).await;
    let began = Instant::now();
    let (mut most, mut answers) = (Vec::new(), Vec::new());
    for n in 0..7 {
        assert!(waits(&lanes[0]).await, "{n} of eight");
        answers.push(add(&queue, &n.to_string()));
        most.push(n.to_string());
    }
    let taken = take(&lanes[0]).await;
    assert_eq!(
        (keys(&taken), began.elapsed()),
        (most.iter().map(|s| &**s).collect(), Duration::ZERO)
    );
}

#[tokio::test(start_paused = true)]
async fn who_does_not_come_back_is_not_waited_for_long_and_not_every_time() {
    let queue = Queue::new(2, 100);
    let lane = queue.join();
    answer_eight(&queue, &lane).await;
    let began = Instant::now();
    let _alone = add(&queue, "a");
    drop(soon(take(&lane)).await);
    let waited = began.elapsed().as_millis();
    assert!((1..=2).contains(&waited), "{waited} ms");
    answer_eight(&queue, &lane).await;
    let _alone = add(&queue, "a");
    assert!(!waits(&lane).await, "it was in vain a moment ago");
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_takes_long_is_not_waited_for() {
    let queue = Queue::new(2, 100);
    let lanes = [queue.join(), queue.join()];
    let _held = ["a", "b", "c"].map(|key| add(&queue, key));
    let blocked = take(&lanes[0]).await;
    let _more = ["d", "a"].map(|key| add(&queue, key));
    let began = Instant::now();
    let other = take(&lanes[1]).await;
    assert_eq!(began.elapsed().as_millis(), LATE.as_millis());
    assert_eq!(keys(&other), ["d"]);
    drop(blocked);
    assert_eq!(keys(&take(&lanes[0]).await), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn what_needs_a_transaction_of_its_own_goes_alone_and_beside_others() {
    let queue = Queue::new(1, 100);
    let lanes = [queue.join(), queue.join()];
    let _before = ["a", "b"].map(|key| add(&queue, key));
    let (clear, _cleared) = command("c", Verb::Clear);
    queue.push(clear).unwrap();
    let _after = add(&queue, "d");
    let group = take(&lanes[0]).await;
    assert_eq!(keys(&group), ["a", "b", "d"]);
    let _waits_for_company = add(&queue, "e");
    let alone = take(&lanes[1]).await;
    assert_eq!(keys(&alone), ["c"]);
    drop(group);
    assert_eq!(keys(&take(&lanes[0]).await), ["e"]);
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_sleeps_until_the_next_may_go_is_roused_for_what_needs_no_company() {
    let queue = Queue::new(1, 100);
    let (busy, sleeper) = (queue.join(), queue.join());
    let _under_way = add(&queue, "a");
    let _group = take(&busy).await;
    let _waits_for_company = add(&queue, "b");
    let began = Instant::now();
    let taken = tokio::spawn(async move {
        let batch = take(&sleeper).await;
        (keys(&batch).join(" "), began.elapsed())
    });
    yield_now().await;
    let (clear, _cleared) = command("c", Verb::Clear);
    queue.push(clear).unwrap();
    assert_eq!(taken.await.unwrap(), ("c".into(), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn whoever_is_roused_leaves_to_the_next_what_it_does_not_take() {
    let queue = Queue::new(1, 100);
    let taken: Vec<_> = (0..3)
        .map(|_| {
            let lane = queue.join();
            tokio::spawn(async move {
                let batch = take(&lane).await;
                let key = keys(&batch).join(" ");
                // The lane takes no more.
                std::mem::forget((batch, lane));
                key
            })
        })
        .collect();
    yield_now().await;
    for key in ["a", "b", "c"] {
        let (clear, _cleared) = command(key, Verb::Clear);
        queue.push(clear).unwrap();
    }
    let mut keys = Vec::new();
    for one in taken {
        keys.push(soon(one).await.unwrap());
    }
    keys.sort();
    assert_eq!(keys, ["a", "b", "c"]);
}

/// Closes the queue, as a caller may do when it is woken.
struct Closes(Arc<Queue>);

impl std::task::Wake for Closes {
    fn wake(self: Arc<Self>) {
        self.0.close();
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_place_may_use_the_store_when_woken() {
    let queue = Queue::new(1, 100);
    let lane = queue.join();
    let places = Arc::new(Semaphore::new(1));
    let (mut first, _answered) = command("a", Verb::Clear);
    first.place = Some(places.clone().try_acquire_owned().unwrap());
    queue.push(first).unwrap();
    let mut waits = std::pin::pin!(places.acquire());
    let waker = Arc::new(Closes(queue.clone())).into();
    let polled = waits
        .as_mut()
        .poll(&mut std::task::Context::from_waker(&waker));
    assert!(polled.is_pending());
    drop(take(&lane).await);
    assert!(lane.take().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn full_batches_go_beside_each_other() {
    let queue = Queue::new(1, 3);
    let lanes = [queue.join(), queue.join()];
    let _first = ["a", "b", "c"].map(|key| add(&queue, key));
    let _under_way = take(&lanes[0]).await;
    let _second = ["d", "e"].map(|key| add(&queue, key));
    assert!(waits(&lanes[1]).await);
    let _third = add(&queue, "f");
    assert_eq!(keys(&take(&lanes[1]).await), ["d", "e", "f"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_is_carried_out_after_the_close_and_nothing_is_taken_in() {
    let queue = Queue::new(1, 100);
    let lanes = [queue.join(), queue.join()];
    let _held = add(&queue, "a");
    let under_way = take(&lanes[0]).await;
    let _waits = add(&queue, "a");
    queue.close();
    let (late, _) = command("b", Verb::Clear);
    assert!(matches!(queue.push(late), Err(Error::Closed)));
    drop(under_way);
    let last = take(&lanes[0]).await;
    assert_eq!(keys(&last), ["a"]);
    drop(last);
    for lane in &lanes {
        assert!(lane.take().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_hears_of_the_end_of_the_last_lane() {
    let queue = Queue::new(1, 100);
    let lane = queue.join();
    let answered = add(&queue, "a");
    drop(lane);
    assert!(answered.await.is_err());
    let (refused, _) = command("b", Verb::Clear);
    assert!(queue.push(refused).is_err());
}

#[tokio::test(start_paused = true)]
async fn what_waited_for_a_lane_that_panicked_is_anothers() {
    let queue = Queue::new(1, 100);
    let (broken, other) = (queue.join(), queue.join());
    let _first = add(&queue, "a");
    let batch = take(&broken).await;
    let _second = add(&queue, "a");
    let taken = tokio::spawn(async move { keys(&take(&other).await).join(" ") });
    yield_now().await;
    drop((batch, broken));
    assert_eq!(soon(taken).await.unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn lanes_end_though_one_panics_while_the_queue_is_closed() {
    let queue = Queue::new(1, 100);
    let (broken, other) = (queue.join(), queue.join());
    let _both = ["a", "a"].map(|key| {
        let (clear, answered) = command(key, Verb::Clear);
        queue.push(clear).unwrap();
        answered
    });
    let first = take(&broken).await;
    queue.close();
    let ended = tokio::spawn(async move { other.take().await.is_none() });
    yield_now().await;
    drop(first);
    let last = take(&broken).await;
    drop((last, broken));
    assert!(soon(ended).await.unwrap());
}

/// The sessions with commands under way, and the carried-out commands of each.
#[derive(Default)]
struct Seen {
    busy: [AtomicBool; 5],
    done: Mutex<[Vec<usize>; 5]>,
}

async fn carry_out(lane: Place, seen: Arc<Seen>) {
    while let Some(mut batch) = lane.take().await {
        let commands = std::mem::take(&mut batch.commands);
        let parsed = |command: &Command| {
            let (session, n) = command.order.key.split_once(' ').unwrap();
            (
                session.parse::<usize>().unwrap(),
                n.parse::<usize>().unwrap(),
            )
        };
        let mut sessions: Vec<_> = commands.iter().map(|one| parsed(one).0).collect();
        sessions.sort_unstable();
        sessions.dedup();
        for &session in &sessions {
            assert!(!seen.busy[session].swap(true, Ordering::SeqCst));
        }
        for _ in 0..commands.len() % 3 {
            yield_now().await;
        }
        for command in commands {
            let (session, n) = parsed(&command);
            seen.done.lock().unwrap()[session].push(n);
            let _ = command.answer.send(Ok(Outcome::Done));
        }
        for session in sessions {
            seen.busy[session].store(false, Ordering::SeqCst);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_command_is_carried_out_once_in_the_order_of_its_session_and_by_one_lane() {
    const EACH: usize = 2_000;
    let (queue, seen) = (Queue::new(3, 7), Arc::new(Seen::default()));
    let lanes = (0..3).map(|_| tokio::spawn(carry_out(queue.join(), seen.clone())));
    let lanes: Vec<_> = lanes.collect();
    let callers = (0..5).map(|session: usize| {
        let queue = queue.clone();
        tokio::spawn(async move {
            let mut answers = VecDeque::new();
            for n in 0..EACH {
                let verb = if n % 11 == 0 {
                    Verb::Clear
                } else {
                    Verb::Update(Update::default())
                };
                let (mut command, answer) = command(&format!("{session} {n}"), verb);
                command.session = session as u64;
                queue.push(command).unwrap();
                answers.push_back(answer);
                if answers.len() > session {
                    answers.pop_front().unwrap().await.unwrap().unwrap();
                }
            }
            for answer in answers {
                answer.await.unwrap().unwrap();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    queue.close();
    for lane in lanes {
        lane.await.unwrap();
    }
    let done = seen.done.lock().unwrap();
    for session in &*done {
        assert!(session.iter().copied().eq(0..EACH));
    }
}
