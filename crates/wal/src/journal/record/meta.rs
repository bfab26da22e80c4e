//! The part of a record about a session's files before it, and the sidecar after it.
//!
//! ```text
//! before              length number · CRC-32 u32 · sidecar bytes, none if there was none
//! meta                1 · sidecar bytes · skip signed · updated_at time of the one before;
//!                     or 2 · skip signed · count signed · updated_at time;
//!                     or 3 · sidecar bytes, and there was none before;
//!                     or 4 · sidecar bytes · sidecar bytes of the one before
//! ```

use bytes::BufMut;

use super::fields::{FieldReader, Time, put_bytes, put_number, put_signed, put_time, put_u32};

/// The sidecar after a record, as the record states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaState<'a> {
    /// The whole sidecar. The first record of a session after each flush carries one: sidecars are
    /// overwritten in place, and a torn one can only be mended from here.
    Image {
        /// The sidecar.
        image: &'a [u8],
        /// The earlier `skip`.
        skip: i64,
        /// The earlier `updated_at`; all else follows from the lines.
        updated_at: Time<'a>,
    },
    /// The same for a session that had no sidecar, or none that decoded.
    First(&'a [u8]),
    /// The whole sidecar, if more than an append's fields changed; and the one before, empty if
    /// there was none that decodes.
    Changed {
        /// The sidecar.
        image: &'a [u8],
        /// The one before.
        before: &'a [u8],
    },
    /// The fields that an append changes.
    Patch {
        /// The number of hidden lines.
        skip: i64,
        /// The number of all lines.
        count: i64,
        /// The time of the last change.
        updated_at: Time<'a>,
    },
}

/// The state, real or planned, of a session's two files before a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prior<'a> {
    /// Length of the session file; 0 without one.
    pub len: u64,
    /// CRC-32 of the session file; 0 without one.
    pub crc: u32,
    /// The encoded sidecar; empty if there was none that decodes.
    pub sidecar: &'a [u8],
}

const IMAGE: u8 = 1;
const PATCH: u8 = 2;
const FIRST: u8 = 3;
const CHANGED: u8 = 4;

pub(super) fn put_before(out: &mut impl BufMut, before: Prior<'_>) {
    put_number(out, before.len);
    put_u32(out, before.crc);
    put_bytes(out, before.sidecar);
}

pub(super) fn before<'a>(reader: &mut FieldReader<'a>) -> Option<Prior<'a>> {
    Some(Prior {
        len: reader.number()?,
        crc: reader.u32()?,
        sidecar: reader.bytes()?,
    })
}

pub(super) fn put_meta(out: &mut impl BufMut, meta: MetaState<'_>) {
    match meta {
        MetaState::Image {
            image,
            skip,
            updated_at,
        } => {
            out.put_u8(IMAGE);
            put_bytes(out, image);
            put_signed(out, skip);
            put_time(out, updated_at);
        }
        MetaState::First(image) => {
            out.put_u8(FIRST);
            put_bytes(out, image);
        }
        MetaState::Changed { image, before } => {
            out.put_u8(CHANGED);
            put_bytes(out, image);
            put_bytes(out, before);
        }
        MetaState::Patch {
            skip,
            count,
            updated_at,
        } => {
            out.put_u8(PATCH);
            put_signed(out, skip);
            put_signed(out, count);
            put_time(out, updated_at);
        }
    }
}

pub(super) fn meta<'a>(reader: &mut FieldReader<'a>) -> Option<MetaState<'a>> {
    match reader.byte()? {
        IMAGE => Some(MetaState::Image {
            image: reader.bytes()?,
            skip: reader.signed()?,
            updated_at: reader.time()?,
        }),
        FIRST => Some(MetaState::First(reader.bytes()?)),
        CHANGED => Some(MetaState::Changed {
            image: reader.bytes()?,
            before: reader.bytes()?,
        }),
        PATCH => Some(MetaState::Patch {
            skip: reader.signed()?,
            count: reader.signed()?,
            updated_at: reader.time()?,
        }),
        _ => None,
    }
}
