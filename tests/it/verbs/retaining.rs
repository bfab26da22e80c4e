//! Letting sessions go.

use std::thread;
use std::time::Duration;

use sessionlog::{Error, RetentionPolicy, RetentionReason, SessionQuery, Store};

use crate::support::{open, scratch};

#[test]
fn sessions_over_a_limit_go_with_all_they_have_and_others_stay() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for n in 0..8 {
        let key = format!("telegram:{n}");
        chats.add_message(&key, "user", "hi").wait().unwrap();
    }
    chats.add_message("slack:1", "user", "hi").wait().unwrap();
    let telegram = SessionQuery::new().prefix("telegram:").limit(1);
    let policy = RetentionPolicy::new().among(telegram);
    let all = chats.retention(policy.clone().age(Duration::from_hours(1)));
    assert_eq!(all.plan().wait().unwrap().kept, 8);
    let retention = chats.retention(policy.count(3));
    let plan = retention.plan().wait().unwrap();
    assert_eq!(plan.kept, 3);
    assert!(
        plan.expired
            .iter()
            .all(|gone| gone.reason == RetentionReason::Count)
    );
    let report = retention.apply().wait().unwrap();
    let oldest_first: Vec<_> = plan.expired.into_iter().rev().collect();
    assert_eq!(report.deleted, oldest_first);
    let left = ["slack:1", "telegram:5", "telegram:6", "telegram:7"];
    assert_eq!(chats.list_sessions().wait().unwrap(), left);
    assert!(retention.apply().wait().unwrap().deleted.is_empty());
    store.close().unwrap();
    let reader = Store::open_read_only(dir.path()).unwrap();
    assert_eq!(reader.handle().list_sessions().wait().unwrap(), left);
    let refused = reader.handle().retention(RetentionPolicy::new().count(0));
    assert!(matches!(refused.apply().wait(), Err(Error::ReadOnly)));
    assert_eq!(refused.plan().wait().unwrap().expired.len(), 4);
    assert!(reader.handle().list_sessions().wait().unwrap().len() == 4);
}

/// What is said after the plan was made must not go with it.
#[test]
fn what_is_said_beside_a_retention_goes_only_with_a_later_one() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let keys: Vec<_> = (0..10).map(|n| format!("s{n}")).collect();
    thread::scope(|scope| {
        let writers: Vec<_> = keys
            .iter()
            .map(|key| {
                let chats = &chats;
                scope.spawn(move || {
                    for n in 0..60 {
                        chats
                            .add_message(key, "user", &n.to_string())
                            .wait()
                            .unwrap();
                    }
                })
            })
            .collect();
        let retention = chats.retention(RetentionPolicy::new().count(0));
        while writers.iter().any(|writer| !writer.is_finished()) {
            retention.apply().wait().unwrap();
        }
    });
    for key in &keys {
        let history = chats.history(key).wait().unwrap();
        let said: Vec<u32> = history.iter().map(|m| m.text().parse().unwrap()).collect();
        assert!(said.windows(2).all(|two| two[0] + 1 == two[1]), "{said:?}");
        assert!(said.last().is_none_or(|last| *last == 59), "{said:?}");
    }
    store.close().unwrap();
}
