use super::*;

const BEFORE: Prior<'_> = Prior {
    len: 9,
    crc: 7,
    sidecar: b"{ }",
};

fn samples() -> Vec<Record<'static>> {
    vec![
        Record::Append {
            stem: "telegram_1",
            generation: 3,
            offset: 77,
            crc: 4,
            meta: MetaState::Patch {
                skip: -3,
                count: 9,
                updated_at: "2026-01-01T00:00:00Z",
            },
            once: "",
            bytes: b"{}\n",
        },
        Record::Append {
            stem: "a",
            generation: 0,
            offset: 0,
            crc: 0,
            meta: MetaState::Image {
                image: b"{}",
                skip: 2,
                updated_at: "2026-01-01T00:00:00Z",
            },
            once: "{}",
            bytes: b"",
        },
        Record::Append {
            stem: "a",
            generation: 0,
            offset: 0,
            crc: 0,
            meta: MetaState::First(b"{}"),
            once: "",
            bytes: b"",
        },
        Record::Append {
            stem: "a",
            generation: 0,
            offset: 0,
            crc: 0,
            meta: MetaState::Changed {
                image: b"{}",
                before: b"{ }",
            },
            once: "{}",
            bytes: b"{}\n",
        },
        Record::Meta {
            stem: "a",
            generation: 1,
            before: BEFORE,
            image: b"{\"key\":\"a\"}",
        },
        Record::Swap {
            stem: "a",
            generation: 2,
            before: BEFORE,
            image: b"{}",
            temp: ".t",
            base_len: 10,
            base_crc: 5,
            tail: b"x\n",
        },
        Record::Rebase {
            stem: "a",
            generation: 3,
            before: BEFORE,
            image: b"{}",
            of: "a.1-revert-0-0.jsonl",
            len: 7,
            crc: 0,
            link: ".l",
            backup: "a.2-restore-0-0.jsonl",
        },
        Record::Delete {
            stem: "a",
            generation: 3,
            before: BEFORE,
        },
        Record::Checkpoint {
            sequence: 8,
            clean: true,
        },
        Record::Commit(Commit {
            sequence: 9,
            batch_len: 1,
            durable: 8,
        }),
    ]
}

#[test]
fn every_record_reads_back_as_written() {
    let mut data = Vec::new();
    for record in samples() {
        encode(&mut data, &record);
    }
    seal(&mut data, 42);
    let mut at = 0;
    for expected in samples() {
        let (record, next) = decode(&data, at, 42).unwrap();
        assert_eq!(record, expected);
        at = next;
    }
    assert_eq!(at, data.len());
}

#[test]
fn a_record_of_another_segment_or_with_any_bit_flipped_is_refused() {
    for record in samples() {
        let mut data = Vec::new();
        encode(&mut data, &record);
        seal(&mut data, 42);
        assert!(decode(&data, 0, 43).is_none());
        for bit in 0..data.len() * 8 {
            let mut damaged = data.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged, 0, 42).is_none(), "bit {bit} of {record:?}");
        }
        for cut in 0..data.len() {
            assert!(decode(&data[..cut], 0, 42).is_none());
        }
    }
}

#[test]
fn zeros_are_not_a_record() {
    assert!(decode(&[0; 64], 0, 0).is_none());
}

#[test]
fn a_commit_record_is_as_long_as_callers_take_it_to_be() {
    let mut bytes = Vec::new();
    let (sequence, durable) = (u64::MAX, u64::MAX);
    let batch_len = u32::MAX;
    encode(
        &mut bytes,
        &Record::Commit(Commit {
            sequence,
            batch_len,
            durable,
        }),
    );
    assert_eq!(bytes.len(), COMMIT_LEN);
}
