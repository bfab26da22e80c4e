//! `teloxide`'s dialogues over the store, as `teloxide` itself calls them.

use serde::{Deserialize, Serialize};
use sessionlog::Store;
use sessionlog_telegram::dialogues::{DialogueError, SessionDialogues};
use teloxide::dispatching::dialogue::Dialogue;
use teloxide::types::ChatId;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
enum Booking {
    #[default]
    Begun,
    From {
        city: String,
    },
}

fn dialogue(store: &Store, chat: i64) -> Dialogue<Booking, SessionDialogues<Booking>> {
    Dialogue::new(SessionDialogues::new(store.handle()), ChatId(chat))
}

#[tokio::test]
async fn a_dialogue_goes_on_where_it_was_after_a_restart_and_each_chat_has_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let oslo = Booking::From {
        city: String::from("Oslo"),
    };
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(dialogue(&store, 7).get().await.unwrap(), None);
    assert_eq!(
        dialogue(&store, 7).get_or_default().await.unwrap(),
        Booking::Begun
    );
    dialogue(&store, 7).update(oslo.clone()).await.unwrap();
    store.close().unwrap();

    let store = Store::open(dir.path()).unwrap();
    assert_eq!(dialogue(&store, 7).get().await.unwrap(), Some(oslo));
    assert_eq!(dialogue(&store, 8).get().await.unwrap(), None);
    // One message is visible, whatever was said before.
    let key = SessionDialogues::<Booking>::key(ChatId(7));
    assert_eq!(store.handle().count(&key).await.unwrap(), 1);
    store.close().unwrap();
}

#[tokio::test]
async fn a_dialogue_that_was_left_is_gone_and_cannot_be_left_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    dialogue(&store, 7).reset().await.unwrap();
    dialogue(&store, 7).exit().await.unwrap();
    assert_eq!(dialogue(&store, 7).get().await.unwrap(), None);
    let again = dialogue(&store, 7).exit().await;
    assert!(matches!(again, Err(DialogueError::NotFound)), "{again:?}");
    dialogue(&store, 7).reset().await.unwrap();
    assert_eq!(
        dialogue(&store, 7).get().await.unwrap(),
        Some(Booking::Begun)
    );
    store.close().unwrap();
}

#[tokio::test]
async fn a_state_of_another_version_of_the_bot_is_an_error_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let key = SessionDialogues::<Booking>::key(ChatId(7));
    let chats = store.handle();
    chats.add_message(&key, "state", "\"Paid\"").await.unwrap();
    let state = dialogue(&store, 7).get().await;
    assert!(matches!(state, Err(DialogueError::State(_))), "{state:?}");
    assert_eq!(chats.count(&key).await.unwrap(), 1);
    store.close().unwrap();
}
