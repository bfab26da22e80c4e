//! The parts of records: numbers, times, and bytes with their length.

use bytes::BufMut;
use sessionlog_core::stamp::{Stamp, ZERO_TIME};

/// The time when a session changed, as a record states it: [`Stamp`] without its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time<'a> {
    /// Nanoseconds since 1970.
    At(i64),
    /// Any other text.
    Text(&'a str),
}

impl<'a> From<&'a Stamp> for Time<'a> {
    fn from(stamp: &'a Stamp) -> Self {
        match stamp {
            Stamp::Never => Self::Text(ZERO_TIME),
            Stamp::At(nanos) => Self::At(*nanos),
            Stamp::Odd(text) => Self::Text(text),
        }
    }
}

impl From<Time<'_>> for String {
    fn from(time: Time<'_>) -> Self {
        match time {
            Time::At(nanos) => Stamp::At(nanos).to_string(),
            Time::Text(text) => text.into(),
        }
    }
}

/// Writes seven bits per byte, lowest first; the highest bit is set if more bytes follow.
pub(super) fn put_number(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Puts the sign into the lowest bit: small numbers are short, negative ones as well.
pub(super) fn put_signed(out: &mut impl BufMut, value: i64) {
    put_number(out, (value << 1 ^ value >> 63).cast_unsigned());
}

pub(super) fn put_u32(out: &mut impl BufMut, value: u32) {
    out.put_slice(&value.to_le_bytes());
}

pub(super) fn put_u64(out: &mut impl BufMut, value: u64) {
    out.put_slice(&value.to_le_bytes());
}

pub(super) fn put_str(out: &mut impl BufMut, text: &str) {
    put_bytes(out, text.as_bytes());
}

pub(super) fn put_bytes(out: &mut impl BufMut, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.put_slice(bytes);
}

/// Writes 0 and the nanoseconds, or the length of a text plus one, and the text.
pub(super) fn put_time(out: &mut impl BufMut, time: Time<'_>) {
    match time {
        Time::At(nanos) => {
            out.put_u8(0);
            out.put_slice(&nanos.to_le_bytes());
        }
        Time::Text(text) => {
            put_number(out, text.len() as u64 + 1);
            out.put_slice(text.as_bytes());
        }
    }
}

pub(super) struct FieldReader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    pub(super) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for at in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let seven = u64::from(byte & 0x7f);
            value |= seven << at;
            if byte < 0x80 {
                return (value >> at == seven).then_some(value);
            }
        }
        None
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(super) fn time(&mut self) -> Option<Time<'a>> {
        match self.number()? {
            0 => Some(Time::At(i64::from_le_bytes(self.take(8)?.try_into().ok()?))),
            more => {
                let text = self.take(usize::try_from(more - 1).ok()?)?;
                std::str::from_utf8(text).ok().map(Time::Text)
            }
        }
    }

    /// All remaining bytes.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    pub(super) fn str(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}
