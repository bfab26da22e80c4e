//! Bytes: what a crash may leave of writes and cuts.

use std::collections::BTreeSet;

use super::{after, images, settle};
use crate::testing::disk_model::draw::Draw;
use crate::testing::disk_model::{Image, MemoryStorage};

#[test]
fn a_write_of_many_sectors_can_tear_anywhere() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", &[1; 8 * 512]);
    file.write_all_at(&[2; 8 * 512], 0).unwrap();
    let mut torn = BTreeSet::new();
    for seed in 0..200 {
        let bytes = after(&storage, Image::Random(seed), "a").unwrap();
        for sector in bytes.chunks(512) {
            assert!(sector.iter().all(|b| *b == sector[0]), "a sector is whole");
        }
        let sectors: Vec<u8> = bytes.chunks(512).map(|sector| sector[0]).collect();
        if sectors.contains(&1) && sectors.contains(&2) {
            torn.insert(sectors);
        }
    }
    assert!(
        torn.iter()
            .any(|sectors| sectors[0] == 1 && sectors[7] == 2)
    );
    assert!(
        torn.iter()
            .any(|sectors| sectors[0] == 2 && sectors[7] == 1)
    );
    assert!(torn.len() > 20, "only {} ways to tear", torn.len());
}

#[test]
fn a_sector_can_be_as_it_was_after_any_of_its_writes() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", b"0");
    for n in [b"1", b"2", b"3"] {
        file.write_all_at(n, 0).unwrap();
    }
    let versions = (0..300).map(|seed| after(&storage, Image::Random(seed), "a").unwrap());
    let seen: BTreeSet<_> = versions.collect();
    let all: BTreeSet<_> = [b"0", b"1", b"2", b"3"].map(|v| v.to_vec()).into();
    assert_eq!(seen, all);
}

#[test]
fn an_append_can_leave_zeros_or_nothing_or_a_part() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", &[1; 100]);
    file.write_all_at(&[2; 2000], 100).unwrap();
    assert_eq!(after(&storage, Image::AllLost, "a").unwrap(), [1; 100]);
    let zeros = after(&storage, Image::SizeWithoutData, "a").unwrap();
    assert_eq!(zeros[..100], [1; 100]);
    assert_eq!(zeros[100..], [0; 2000]);
    for seed in 0..100 {
        let bytes = after(&storage, Image::Random(seed), "a").unwrap();
        assert_eq!(bytes[..100], [1; 100], "old bytes stay, seed {seed}");
        assert!(bytes[100..].iter().all(|b| *b == 2 || *b == 0));
    }
}

#[test]
fn the_last_write_can_land_without_the_one_before() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", b"");
    file.write_all_at(&[1; 512], 0).unwrap();
    file.write_all_at(&[2; 512], 512).unwrap();
    for image in [Image::LastWriteOnly, Image::Reversed] {
        let bytes = after(&storage, image, "a").unwrap();
        assert_eq!(bytes[..512], [0; 512], "{image:?}");
        assert_eq!(bytes[512..], [2; 512], "{image:?}");
    }
}

#[test]
fn changes_of_one_file_can_land_before_earlier_ones_of_another() {
    let storage = MemoryStorage::new();
    let journal = settle(&storage, "journal", b"");
    let session = settle(&storage, "session", b"");
    journal.write_all_at(b"record", 0).unwrap();
    session.write_all_at(b"line", 0).unwrap();
    assert_eq!(after(&storage, Image::Reversed, "journal").unwrap(), b"");
    assert_eq!(
        after(&storage, Image::Reversed, "session").unwrap(),
        b"line"
    );
}

#[test]
fn a_synced_cut_never_comes_back() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", &[1; 3000]);
    file.set_len(10).unwrap();
    file.sync_data().unwrap();
    file.set_len(3000).unwrap();
    for image in images(50) {
        let bytes = after(&storage, image, "a").unwrap();
        assert_eq!(bytes[..10], [1; 10], "{image:?}");
        assert!(bytes[10..].iter().all(|b| *b == 0), "{image:?}");
    }
}

#[test]
fn an_unsynced_cut_can_come_back() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", b"removed");
    file.set_len(0).unwrap();
    assert_eq!(after(&storage, Image::AllLost, "a").unwrap(), b"removed");
    assert_eq!(after(&storage, Image::AllKept, "a").unwrap(), b"");
}

/// A random history of one file; each sync makes what came before certain.
#[test]
fn no_image_loses_a_synced_byte_or_invents_one() {
    for seed in 0..60 {
        let mut draw = Draw::new(seed);
        let storage = MemoryStorage::new();
        let file = settle(&storage, "a", b"");
        let mut certain = 0;
        for value in 1..=20_u8 {
            let len = file.info().unwrap().len;
            file.write_all_at(&vec![value; 1 + draw.up_to(3000)], len)
                .unwrap();
            if draw.next().is_multiple_of(6) {
                file.sync_data().unwrap();
                certain = file.info().unwrap().len as usize;
            }
        }
        let all = storage.read_foreign("a").unwrap();
        for image in images(20) {
            let left = after(&storage, image, "a").unwrap();
            assert_eq!(left[..certain], all[..certain], "{seed} {image:?}");
            let mut rest = left[certain..].iter().zip(&all[certain..]);
            assert!(rest.all(|(l, a)| l == a || *l == 0), "{seed} {image:?}");
        }
    }
}
