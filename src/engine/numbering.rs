//! The positions of a session's lines, and where these stand in its file.

use sessionlog_core::position::Position;

/// Converts offsets in a session's file to positions. A compaction moves lines to other offsets but
/// leaves their positions unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbering {
    /// The number of the history. No two histories have the same.
    of: u64,
    /// The position minus the offset, modulo 2⁶⁴.
    shift: u64,
    /// The first offset that has a position. Lines before it are gone.
    begin: u64,
}

/// The place of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this offset.
    Here(u64),
    /// Truncated, and compacted away.
    Gone,
    /// In another history.
    Elsewhere,
}

impl Numbering {
    /// A new numbering: positions are offsets.
    pub(crate) fn new(of: u64) -> Self {
        Self {
            of,
            shift: 0,
            begin: 0,
        }
    }

    /// The same positions after the line at `from` moved to `to` and all lines before it were
    /// removed.
    pub(crate) fn moved(self, from: u64, to: u64) -> Self {
        let shift = self.shift.wrapping_add(from).wrapping_sub(to);
        Self {
            shift,
            begin: to,
            ..self
        }
    }

    /// The position of the line at `offset`. Lines that a compaction carried along stand before the
    /// first position and get that position: lower numbers belong to lines that are gone.
    pub(crate) fn position(self, offset: u64) -> Position {
        Position::new(self.of, offset.max(self.begin).wrapping_add(self.shift))
    }

    /// True if the first position is at this offset.
    pub(crate) fn begins_at(self, offset: u64) -> bool {
        offset == self.begin
    }

    /// The place of a position in the file.
    pub(crate) fn find(self, position: Position) -> Place {
        if position.history() != self.of {
            return Place::Elsewhere;
        }
        // Before the begin of the file, it wraps to a number that no file reaches.
        let offset = position.at().wrapping_sub(self.shift);
        if offset < self.begin || i64::try_from(offset).is_err() {
            return Place::Gone;
        }
        Place::Here(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_the_same_line_after_lines_moved() {
        let before = Numbering::new(7);
        let (gone, kept) = (before.position(10), before.position(60));
        // The line at 50 moved to 5, after lines that were carried along.
        let after = before.moved(50, 5);
        assert_eq!(after.find(kept), Place::Here(15));
        assert_eq!(after.find(gone), Place::Gone);
        assert_eq!(after.find(before.position(49)), Place::Gone);
        assert_eq!(after.position(15), kept);
        for carried in 0..=5 {
            assert_eq!(after.find(after.position(carried)), Place::Here(5));
        }
        assert_eq!(Numbering::new(8).find(kept), Place::Elsewhere);
        assert_eq!(kept.to_string().parse(), Ok(kept));
        assert!("7".parse::<Position>().is_err());
    }
}
