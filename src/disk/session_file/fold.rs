//! Case folding and trimming as PicoClaw's language does them.
//!
//! Keys are hashes of folded text: one character folded otherwise, and every
//! session of that chat is lost to sight.

use std::borrow::Cow;

/// Letters that got a lower case after Unicode 15, the version PicoClaw folds
/// by. They stay as they are, whatever Unicode this crate is compiled with.
const LATER: [(char, char); 8] = [
    ('\u{1c89}', '\u{1c89}'),
    ('\u{a7cb}', '\u{a7cc}'),
    ('\u{a7ce}', '\u{a7ce}'),
    ('\u{a7d2}', '\u{a7d2}'),
    ('\u{a7d4}', '\u{a7d4}'),
    ('\u{a7da}', '\u{a7dc}'),
    ('\u{10d50}', '\u{10d65}'),
    ('\u{16ea0}', '\u{16eb8}'),
];

/// `text` in lower case, each code point on its own: `İ` is `i`, and a final
/// `Σ` is `σ` like any other.
pub(crate) fn to_lower(text: &str) -> Cow<'_, str> {
    if text.is_ascii() && !text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(lower).collect())
}

/// `text` without white space around it, in lower case.
pub(crate) fn fold(text: &str) -> Cow<'_, str> {
    to_lower(text.trim())
}

fn lower(character: char) -> char {
    let later = |(first, last): &(char, char)| (*first..=*last).contains(&character);
    if !character.is_ascii() && LATER.iter().any(later) {
        return character;
    }
    character.to_lowercase().next().unwrap_or(character)
}

#[cfg(test)]
mod tests {
    use super::{LATER, fold, lower, to_lower};
    use crate::disk::session_file::names::fnv1a32;

    #[test]
    fn characters_are_folded_one_by_one() {
        assert_eq!(to_lower("İSTANBUL"), "istanbul");
        assert_eq!(to_lower("ΟΔΥΣΣΕΥΣ"), "οδυσσευσ");
        assert_eq!(
            to_lower("\u{212a}elvin \u{212b}ngström ẞ ǅ Ⅷ"),
            "kelvin ångström ß ǆ ⅷ"
        );
    }

    /// The fingerprint is that of the simple lower-case mappings of
    /// Unicode 15.0's `UnicodeData.txt`, 1,433 of them.
    #[test]
    fn the_table_is_that_of_unicode_15_whatever_we_are_compiled_with() {
        let mut table = String::new();
        let folded = ('\0'..=char::MAX).filter(|character| lower(*character) != *character);
        for character in folded {
            table.extend([character, lower(character)]);
        }
        assert_eq!(table.chars().count(), 2 * 1_433);
        assert_eq!(fnv1a32(table.as_bytes()), 0xa86b_8be5);
        for (first, last) in LATER {
            assert!((first..=last).all(|character| lower(character) == character));
        }
    }

    #[test]
    fn white_space_is_unicodes_and_nothing_that_only_looks_empty() {
        let white = "\t\n\u{b}\u{c}\r \u{85}\u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\
                     \u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}";
        assert_eq!(fold(&format!("{white}A{white}")), "a");
        let all = ('\0'..=char::MAX).filter(|character| character.is_whitespace());
        assert_eq!(all.collect::<String>(), white);
        for kept in ["\u{200b}", "\u{feff}", "\u{1f}", "\u{180e}", "\0"] {
            assert_eq!(fold(kept), kept);
        }
    }
}
