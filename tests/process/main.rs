//! Real processes on real file systems: a disk that is full, a mount that is
//! read-only, a directory that another process owns, no descriptor left.
//!
//! What needs rights or devices that the machine does not give is skipped, and
//! says so. Mounts are made in a mount namespace of their own, so that nothing
//! is left of them when the last process in it ends.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "the tests are other programs, and look at files themselves"
)]

mod roles;
#[path = "../small_volume/mod.rs"]
mod small_volume;
mod stage;

use std::fs;
use std::io::{BufRead, BufReader};

use rustix::io::Errno;
use sessionlog::{Error, Store};
use stage::{Stage, told};

/// What another process does that a test started; nothing in a run of its own.
#[test]
fn the_part_of_another_process() {
    roles::play();
}

#[test]
fn a_full_ext4_refuses_in_words_and_goes_on_where_it_was() {
    let stage = Stage::new();
    let image = stage.path("image");
    let file = fs::File::create(&image).unwrap();
    file.set_len(24 << 20).unwrap();
    drop(file);
    let setup = "mkfs.ext4 -q -F \"$IMAGE\" && mount -o loop \"$IMAGE\" \"$MOUNT\"";
    fill_up("ext4 on a loop device", &stage, setup);
}

#[test]
fn a_full_tmpfs_refuses_in_words_and_goes_on_where_it_was() {
    let setup = "mount -t tmpfs -o size=16m,mode=0700 none \"$MOUNT\"";
    fill_up("a tmpfs of 16 MiB", &Stage::new(), setup);
}

/// Fills a small file system, lets the process die, recovers while there is
/// little room, makes room, and looks for everything acknowledged.
fn fill_up(what: &str, stage: &Stage, setup: &str) {
    let play = "$SELF fill && $SELF recover_full && rm \"$MOUNT/ballast\" && $SELF verify_filled";
    match stage.mounted(setup, play) {
        Ok(output) => {
            let counts = told(&output);
            println!("{what}: {counts}");
            assert!(counts.contains("refused"), "{output}");
        }
        Err(reason) => println!("SKIPPED: {what}: {reason}"),
    }
}

/// The volume is the store's alone: nobody else can make room.
#[test]
fn a_volume_that_the_store_filled_is_emptied_by_the_store() {
    for how in ["killed", "closed", "running"] {
        let tmpfs = "mount -t tmpfs -o size=6m,mode=0700 none \"$MOUNT\"";
        empty("a tmpfs of 6 MiB", &Stage::new(), tmpfs, how);
        let inodes = "mount -t tmpfs -o size=64m,nr_inodes=100,mode=0700 none \"$MOUNT\"";
        if how == "running" {
            empty(
                "a tmpfs of 100 inodes",
                &Stage::new(),
                inodes,
                "without_inodes",
            );
        }
        if how != "killed" {
            continue;
        }
        let stage = Stage::new();
        let file = fs::File::create(stage.path("image")).unwrap();
        file.set_len(12 << 20).unwrap();
        drop(file);
        let ext4 = "mkfs.ext4 -q -F \"$IMAGE\" && mount -o loop \"$IMAGE\" \"$MOUNT\"";
        empty("an ext4 of 12 MiB", &stage, ext4, how);
    }
}

fn empty(what: &str, stage: &Stage, setup: &str, how: &str) {
    let play = match how {
        "running" | "without_inodes" => format!("$SELF let_go_{how}"),
        _ => format!("$SELF fill_alone_{how} && $SELF let_go"),
    };
    match stage.mounted(setup, &play) {
        Ok(output) => println!("{what}, {how}: {}", told(&output)),
        Err(reason) => println!("SKIPPED: {what}: {reason}"),
    }
}

#[test]
fn a_small_ext4_holds_sessions_without_a_refusal_and_serves_again_after_a_full_one() {
    let stage = Stage::new();
    let file = fs::File::create(stage.path("image")).unwrap();
    file.set_len(small_volume::VOLUME).unwrap();
    drop(file);
    let setup = "mkfs.ext4 -q -F \"$IMAGE\" && mount -o loop \"$IMAGE\" \"$MOUNT\"";
    live_small("an ext4 of 64 MiB", &stage, setup);
}

#[test]
fn a_small_tmpfs_holds_sessions_without_a_refusal_and_serves_again_after_a_full_one() {
    let setup = "mount -t tmpfs -o size=64m,mode=0700 none \"$MOUNT\"";
    live_small("a tmpfs of 64 MiB", &Stage::new(), setup);
}

fn live_small(what: &str, stage: &Stage, setup: &str) {
    match stage.mounted(setup, "$SELF small_volume") {
        Ok(output) => println!("{what}: {}", told(&output)),
        Err(reason) => println!("SKIPPED: {what}: {reason}"),
    }
}

#[test]
fn a_store_on_a_read_only_mount_is_read_and_not_opened_for_writing() {
    let stage = Stage::new();
    let store = Store::open(stage.store()).unwrap();
    let chats = store.handle();
    for text in ["one", "two"] {
        chats.add_message("cli", "user", text).wait().unwrap();
    }
    store.close().unwrap();
    let setup = "mount --bind \"$MOUNT\" \"$MOUNT\" && mount -o remount,ro,bind \"$MOUNT\"";
    match stage.mounted(setup, "$SELF read_only") {
        Ok(output) => assert!(told(&output).contains("read 2"), "{output}"),
        Err(reason) => println!("SKIPPED: a read-only mount: {reason}"),
    }
}

#[test]
fn one_process_at_a_time_owns_a_directory_and_its_death_frees_it() {
    let stage = Stage::new();
    let mut owner = stage.start("own");
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let ready = lines.find_map(|line| line.unwrap().contains("ready").then_some(()));
    ready.expect("the owner opens the store");

    let refused = Store::open(stage.store());
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    let beside = Store::open_read_only(stage.store()).unwrap();
    let read = beside.handle().history("cli").wait().unwrap();
    assert_eq!(read.len(), 3);

    owner.kill().unwrap();
    owner.wait().unwrap();
    let store = Store::open(stage.store()).unwrap();
    assert_eq!(store.handle().history("cli").wait().unwrap().len(), 3);
    store.close().unwrap();
}

/// What `flock` does on 9p, on NFS mounted without locks, and on file systems that have none.
const FLOCK: &str = r#"
#include <errno.h>
#include <stdlib.h>
int flock(int file, int operation) {
    const char *error = getenv("FLOCK_ERROR");
    if (!error) return 0;
    errno = atoi(error);
    return -1;
}
"#;

#[test]
fn a_file_system_without_locks_is_refused_in_words_unless_the_user_vouches_for_one_writer() {
    let stage = Stage::new();
    fs::write(stage.path("flock.c"), FLOCK).unwrap();
    let (source, library) = (stage.path("flock.c"), stage.path("flock.so"));
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("SKIPPED: locks that do nothing: no C compiler");
        return;
    }
    let preload = format!("LD_PRELOAD={}", library.display());
    let nothing_done = format!("{preload} $SELF without_locks");
    let said = told(&stage.script(&nothing_done).unwrap());
    assert!(said.contains("grants a lock that is held"), "{said}");
    assert!(said.contains("`allow_missing_lock`"), "{said}");
    for errno in [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS] {
        let errno = errno.raw_os_error();
        let refused =
            format!("rm -r \"$MOUNT/sessions\"; {preload} FLOCK_ERROR={errno} $SELF without_locks");
        let said = told(&stage.script(&refused).unwrap());
        assert!(
            said.contains("network mounts and container volumes"),
            "{said}"
        );
    }
}

#[test]
fn a_process_without_descriptors_loses_nothing_and_goes_on_when_it_has_some() {
    let stage = Stage::new();
    let output = stage.script("ulimit -n 160 && $SELF no_descriptors");
    let output = output.expect("every shell can lower the limit");
    println!("no descriptors: {}", told(&output));
    let store = Store::open(stage.store()).unwrap();
    for nth in 0..roles::CHATS {
        let held = store.handle().history(&roles::chat(nth)).wait().unwrap();
        assert!(held.len() >= 2, "chat {nth}: {}", held.len());
    }
    store.close().unwrap();
}

/// Where the next segment of the journal cannot be opened nothing was written: that
/// must not stop the store for ever.
#[test]
fn a_journal_without_descriptors_refuses_and_goes_on_when_it_has_some() {
    let stage = Stage::new();
    let output = stage.script("ulimit -n 160 && $SELF no_segments");
    let told = told(&output.expect("every shell can lower the limit"));
    println!("no descriptors for the journal: {told}");
    assert!(told.contains("refused"), "{told}");
}
