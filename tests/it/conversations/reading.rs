//! Reading beside a writer that takes a session back.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sessionlog::testing::disk_model::Image;
use sessionlog::testing::sim;
use sessionlog::testing::storage::Storage;

use super::open;
use crate::intercept::Intercepted;
use crate::support::texts;

#[test]
fn a_reader_finds_a_backup_that_gets_its_name_meanwhile() {
    let (storage, store, chats) = open();
    chats.add_message("a", "user", "one").wait().unwrap();
    chats.context("a").checkpoint(false).wait().unwrap();
    chats.add_message("a", "user", "two").wait().unwrap();
    chats.flush().wait().unwrap();
    // The moment at which the journal has the revert, and the backup no name.
    let between = Arc::new(Mutex::new(None));
    storage.at_every_call({
        let between = between.clone();
        move |call, path, disk| {
            if call == "rename" && path.to_string_lossy().contains("/backups/") {
                let image = disk.image(Image::ProcessDeath);
                *between.lock().unwrap() = Some((image, path.to_path_buf()));
            }
            Ok(())
        }
    });
    chats.context("a").revert_to(0).wait().unwrap();
    store.close().unwrap();
    let (disk, name) = between.lock().unwrap().take().unwrap();
    let beside = Intercepted::on(disk.clone());
    let chats = sim::read_only_on(Arc::new(beside.clone())).unwrap();
    assert_eq!(texts(&chats, "a"), ["one"]);
    let is_link = |path: &&String| path.contains("/backups/.sessionlog-");
    let link: PathBuf = {
        let files = disk.dump();
        Path::new("/").join(files.keys().find(is_link).unwrap())
    };
    beside.at_every_call(move |call, path, disk| {
        if call == "missed" && path == name {
            disk.rename(&link, &name)?;
        }
        Ok(())
    });
    assert_eq!(texts(&chats, "a"), ["one"]);
}
