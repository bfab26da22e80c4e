//! The bytes of the journal.

use sessionlog::testing::disk_model::MemoryStorage;

use super::{MAX_INPUT, put, use_all};

/// The first page of a segment is its header.
const HEADER: usize = 4096;

/// Bytes of a record before its kind.
const HEAD: usize = 8;

const MAGIC: &[u8; 8] = b"slJOURNL";
const COMMIT: u8 = 6;
const STORE: [u8; 16] = *b"a store, fuzzed.";
const SALT: u64 = 0x5a17_5a17;

/// A segment of any bytes; or, if the first byte is odd, records of any bytes
/// with every checksum made right, so that what is behind them is reached.
pub(crate) fn journal(data: &[u8]) {
    let Some((mode, bytes)) = data.split_first() else {
        return;
    };
    let bytes = &bytes[..bytes.len().min(MAX_INPUT)];
    let storage = MemoryStorage::new();
    put(
        &storage,
        "cli.jsonl",
        b"{\"role\":\"user\",\"content\":\"one\"}\n",
    );
    put(
        &storage,
        "cli.meta.json",
        b"{\"key\":\"cli\",\"skip\":0,\"count\":1}",
    );
    let segment = if mode % 2 == 0 {
        bytes.to_vec()
    } else {
        sealed(bytes, mode & 2 != 0)
    };
    let store = segment.get(12..28).unwrap_or(&STORE);
    let store: [u8; 16] = store.try_into().expect("sixteen bytes");
    let identity = format!("sessionlog 1 {:032x}\n", u128::from_be_bytes(store));
    put(&storage, ".sessionlog/identity", identity.as_bytes());
    let name = ".sessionlog/journal/segment-0000000000000001.log";
    put(&storage, name, &segment);
    use_all(&storage);
}

/// A valid header, and `records` with valid lengths and checksums. With
/// `number`, commit records are numbered in order, too.
fn sealed(records: &[u8], number: bool) -> Vec<u8> {
    let mut segment = header(HEADER + records.len());
    let seed = seed();
    let (mut at, mut batch, mut sequence) = (0, 0, 1_u64);
    while records.len() - at > HEAD {
        let stated = u32::from_le_bytes(records[at..at + 4].try_into().expect("four bytes"));
        let rest = records.len() - at - HEAD;
        let length = (stated as usize).clamp(1, rest);
        let mut record = (length as u32).to_le_bytes().to_vec();
        record.extend_from_slice(&[0; 4]);
        record.extend_from_slice(&records[at + HEAD..at + HEAD + length]);
        if number && record[HEAD] == COMMIT && length == 29 {
            record[HEAD + 9..HEAD + 17].copy_from_slice(&sequence.to_le_bytes());
            let before = (segment.len() - HEADER - batch) as u32;
            record[HEAD + 17..HEAD + 21].copy_from_slice(&before.to_le_bytes());
            sequence += 1;
            batch = segment.len() - HEADER + record.len();
        }
        let mut crc = crc32fast::Hasher::new_with_initial(seed);
        crc.update(&record[..4]);
        crc.update(&record[HEAD..]);
        record[4..HEAD].copy_from_slice(&crc.finalize().to_le_bytes());
        segment.extend_from_slice(&record);
        at += HEAD + length;
    }
    segment.resize(segment.len() + 64, 0);
    segment
}

fn seed() -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&SALT.to_le_bytes());
    crc.update(&1_u64.to_le_bytes());
    crc.finalize()
}

fn header(len: usize) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(&1_u32.to_le_bytes());
    header.extend_from_slice(&STORE);
    header.extend_from_slice(&1_u64.to_le_bytes());
    header.extend_from_slice(&SALT.to_le_bytes());
    header.extend_from_slice(&(len as u64).to_le_bytes());
    let crc = crc32fast::hash(&header);
    header.extend_from_slice(&crc.to_le_bytes());
    header.resize(HEADER, 0);
    header
}
