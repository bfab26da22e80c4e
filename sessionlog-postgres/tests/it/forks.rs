//! Forks end where they should: a record too many is a token count or a checkpoint of a
//! conversation that the fork has not had.

use sessionlog::{Error, Fork, Message, Store, Update};

use crate::support::{scratch, store, texts};

/// What is to be compared of a fork, whichever store it is in.
macro_rules! forks {
    ($chats:expr) => {{
        let chats = $chats;
        let context = chats.context("a");
        for n in 0..4_i64 {
            let said = Message::user(n.to_string());
            chats.append_all("a", vec![said]).wait().unwrap();
            context.update_token_count(n * 10).wait().unwrap();
            context.checkpoint(n % 2 == 0).wait().unwrap();
        }
        chats.truncate_history("a", 4).wait().unwrap();
        chats.set_summary("a", "summary").wait().unwrap();
        let tags = Update::new().title("T").labels(["x"]).pinned(true);
        chats.update("a", tags).wait().unwrap();
        let ends = (0..7).map(Fork::Message);
        let ends = ends.chain((0..5).map(|id: i64| Fork::Checkpoint(id.into())));
        let seen = ends.chain([Fork::End]).enumerate().map(|(n, at)| {
            let to = format!("fork{n}");
            let told = chats.fork_session("a", &to, at).wait();
            let fork = chats.context(&to);
            (
                (
                    format!("{told:?}"),
                    chats.history(&to).wait().unwrap().len(),
                ),
                fork.token_count().wait().unwrap(),
                chats.checkpoints(&to).wait().unwrap(),
                fork.n_checkpoints().wait().unwrap(),
                chats.summary(&to).wait().unwrap(),
                chats.session_meta(&to).wait().unwrap().tags,
            )
        });
        seen.collect::<Vec<_>>()
    }};
}

#[test]
fn a_fork_ends_where_that_of_a_store_of_files_does() {
    let Some(database) = store() else { return };
    let dir = scratch();
    let files = Store::open(dir.path()).unwrap();
    assert_eq!(forks!(&database), forks!(&files.handle()));
    files.close().unwrap();
}

#[test]
fn a_fork_is_a_session_of_its_own_and_takes_no_others_place() {
    let Some(store) = store() else { return };
    store.add_message("a", "user", "0").wait().unwrap();
    store
        .upsert_session_meta("a", None, vec!["old:a".into()])
        .wait()
        .unwrap();
    store.context("a").clear().wait().unwrap();
    store.add_message("a", "user", "1").wait().unwrap();
    let fork = |from: &str, to: &str| store.fork_session(from, to, Fork::End).wait();
    fork("old:a", "b").unwrap();
    for to in ["a", "old:a", "b"] {
        let refused = fork("a", to).unwrap_err();
        assert!(
            matches!(refused, Error::SessionExists { .. }),
            "{refused:?}"
        );
    }
    let refused = fork("nobody", "c").unwrap_err();
    assert!(
        matches!(refused, Error::SessionNotFound { .. }),
        "{refused:?}"
    );
    store.add_message("b", "user", "2").wait().unwrap();
    assert_eq!(texts(&store, "a"), ["1"]);
    assert_eq!(texts(&store, "b"), ["1", "2"]);
    assert!(store.session_meta("b").wait().unwrap().aliases.is_empty());
    assert!(store.list_backups("b").wait().unwrap().is_empty());
    store.delete_session("a").wait().unwrap();
    assert_eq!(texts(&store, "b"), ["1", "2"]);
}
