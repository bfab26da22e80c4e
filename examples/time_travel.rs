//! A chat that goes wrong, and is taken back: checkpoints, a revert, the backup
//! of what was, and a fork that goes another way.
//!
//! `cargo run --example time_travel -- [directory]`

use sessionlog::{BackupLimits, Context, Error, Fork, Message, Result, Store};

const CHAT: &str = "telegram:123";

fn main() -> Result<()> {
    let scratch = std::env::temp_dir().join(format!("time-travel-{}", std::process::id()));
    let dir = std::env::args().nth(1).map_or(scratch, Into::into);
    println!("sessions in {}\n", dir.display());
    let store = Store::open(&dir)?;
    let chats = store.handle();
    let chat = chats.context(CHAT);
    if chat.restore().wait()? {
        println!("{CHAT} has lines already; give another directory, or none");
        return store.close();
    }

    // A prompt, a question, an answer, and what the model says it all costs.
    chat.write_system_prompt("You are a travel agent.").wait()?;
    chat.append_message(Message::user("A weekend in Oslo, please."))
        .wait()?;
    chat.append_message(Message::assistant("By train or by plane?"))
        .wait()?;
    chat.update_token_count(41).wait()?;
    show("a question and an answer", &chat)?;

    // Before something that may go wrong, a checkpoint. The model is told of it,
    // so that it can ask to go back.
    let before = chat.checkpoint(true).wait()?;
    chat.append_message(vec![
        Message::user("By plane."),
        Message::assistant("Booked: Oslo, Minnesota. No refunds."),
    ])
    .wait()?;
    chat.update_token_count(77).wait()?;
    show("it went wrong", &chat)?;

    // Back: the checkpoint and everything behind it are gone, and the token
    // count is what it was.
    chat.revert_to(before).wait()?;
    show(&format!("back to before checkpoint {before}"), &chat)?;

    // A checkpoint is there only once.
    match chat.revert_to(before).wait() {
        Err(error @ Error::CheckpointNotFound { .. }) => println!("once more? {error}\n"),
        other => other?,
    }

    // What was is a backup, which is no session.
    for backup in chats.list_backups(CHAT).wait()? {
        println!(
            "backup {} of {} bytes, made by a {:?} at {}",
            backup.number, backup.size, backup.reason, backup.created_at
        );
    }
    println!("sessions: {}\n", chats.list_sessions().wait()?.join(", "));

    // Two ways on: this chat by train, a fork of it by boat.
    chats
        .fork_session(CHAT, "telegram:123/boat", Fork::End)
        .wait()?;
    let boat = chats.context("telegram:123/boat");
    boat.append_message(Message::user("By boat!")).wait()?;
    chat.append_message(Message::user("By train.")).wait()?;
    show("the fork", &boat)?;
    show("the chat it was forked from", &chat)?;

    // The backup comes back, and what it replaces becomes one.
    chats.restore_backup(CHAT, 1).wait()?;
    show("backup 1, restored", &chat)?;
    let removed = chats
        .prune_backups(CHAT, BackupLimits::new().count(1))
        .wait()?;
    println!("backups removed: {removed}, the newest one stays");

    store.close()
}

fn show(what: &str, chat: &Context) -> Result<()> {
    println!("{what}:");
    if let Some(prompt) = chat.system_prompt().wait()? {
        println!("  {:>9}: {prompt}", "(prompt)");
    }
    for message in chat.history().wait()? {
        println!("  {:>9}: {}", message.role(), message.text());
    }
    println!(
        "  {} tokens counted, {} with what came since; the next checkpoint is {}\n",
        chat.token_count().wait()?,
        chat.token_count_with_pending().wait()?,
        chat.n_checkpoints().wait()?
    );
    Ok(())
}
