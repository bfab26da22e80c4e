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
                updated_at: Time::At(1_767_225_600_000_000_001),
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
                updated_at: Time::Text("2026-01-01T00:00:00.50Z"),
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

#[test]
fn a_number_reads_back_whatever_its_size_and_one_over_64_bits_not_at_all() {
    let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit]);
    for value in edges.chain([u64::MAX]) {
        let mut bytes = Vec::new();
        put_number(&mut bytes, value);
        fields::put_signed(&mut bytes, value.cast_signed());
        fields::put_signed(&mut bytes, value.wrapping_neg().cast_signed());
        let mut reader = FieldReader { rest: &bytes };
        assert_eq!(reader.number(), Some(value));
        assert_eq!(reader.signed(), Some(value.cast_signed()));
        assert_eq!(reader.signed(), Some(value.wrapping_neg().cast_signed()));
        assert!(reader.rest.is_empty());
    }
    for endless in [
        vec![0xff; 9],
        vec![0xff; 11],
        [vec![0xff; 9], vec![2]].concat(),
    ] {
        assert_eq!(FieldReader { rest: &endless }.number(), None);
    }
}

#[test]
fn a_time_reads_back_to_the_letter() {
    use sessionlog_core::stamp::{Stamp, ZERO_TIME};
    for text in [
        "",
        ZERO_TIME,
        "2026-01-02T03:04:05.123456789Z",
        "1969-12-31T23:59:59.5Z",
        "2026-01-02T03:04:05+00:00",
    ] {
        let stamp = Stamp::from(text);
        let mut bytes = Vec::new();
        fields::put_time(&mut bytes, (&stamp).into());
        let mut reader = FieldReader { rest: &bytes };
        assert_eq!(reader.time().map(String::from).as_deref(), Some(text));
        assert!(reader.rest.is_empty());
    }
}

#[test]
fn an_append_adds_at_most_50_bytes_to_its_lines() {
    let mut bytes = Vec::new();
    let lines = b"{}\n";
    encode(
        &mut bytes,
        &Record::Append {
            stem: "telegram_1",
            generation: 100,
            offset: 1 << 20,
            crc: u32::MAX,
            meta: MetaState::Patch {
                skip: 0,
                count: 5_000,
                updated_at: Time::At(i64::MAX),
            },
            once: "",
            bytes: lines,
        },
    );
    assert!(bytes.len() - lines.len() <= 50, "{}", bytes.len());
}
