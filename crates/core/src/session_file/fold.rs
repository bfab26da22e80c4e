//! Case folding and trimming as PicoClaw's language does them.
//!
//! Keys are hashes of folded text: if one character is folded differently, no session of that chat
//! is found.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// Letters that got a lower case after Unicode 15, the version by which PicoClaw folds. They stay
/// unchanged, whatever Unicode version this crate is compiled with.
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
#[must_use]
pub fn fold(text: &str) -> Cow<'_, str> {
    to_lower(text.trim())
}

/// A file name folded for file systems that distinguish fewer names: without case, ways of
/// composing a character, and invisible characters. It is coarser than any file system, so that
/// names which one of them treats as the same are the same here. It is stored nowhere: another
/// Unicode version may fold differently.
pub fn fold_name(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        return to_lower(name);
    }
    // There and back: `ẞ` and `ß` become equal only as `ss`.
    let folded = name
        .nfd()
        .filter(|character| !is_ignorable(*character))
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase);
    Cow::Owned(folded.nfc().collect())
}

/// The file names that a file system treats as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameRule {
    /// Perhaps all that [`fold_name`] makes the same.
    #[default]
    Folds,
    /// Case is distinguished, ways of composing a character perhaps not.
    TellsCase,
}

impl NameRule {
    /// The folded name: two names with different results have two files.
    #[must_use]
    pub fn fold(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::Folds => fold_name(name),
            Self::TellsCase if name.is_ascii() => Cow::Borrowed(name),
            Self::TellsCase => {
                let shown = name.nfd().filter(|character| !is_ignorable(*character));
                Cow::Owned(shown.nfc().collect())
            }
        }
    }
}

/// Unicode's `Default_Ignorable_Code_Point`.
fn is_ignorable(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
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
    use super::{LATER, fold, fold_name, lower, to_lower};
    use crate::session_file::names::fnv1a32;

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
    fn names_that_a_file_system_may_take_for_one_fold_alike() {
        let alike = [
            ["slack_U1abc", "slack_U1ABC"],
            ["caf\u{e9}", "cafe\u{301}"],
            ["CAF\u{c9}", "cafe\u{301}"],
            ["\u{212b}ngstr\u{f6}m", "a\u{30a}ngstro\u{308}m"],
            ["stra\u{df}e", "STRASSE"],
            ["STRA\u{1e9e}E", "stra\u{df}e"],
            ["\u{3c3}\u{3c2}", "\u{3a3}\u{3a3}"],
            ["\u{17f}", "S"],
            ["a\u{200d}b\u{feff}", "ab"],
            ["\u{1100}\u{1161}", "\u{ac00}"],
        ];
        for [one, other] in alike {
            assert_eq!(fold_name(one), fold_name(other));
            assert_eq!(fold_name(&fold_name(one)), fold_name(one));
        }
        assert_ne!(fold_name("a_b"), fold_name("a-b"));
        assert_ne!(fold_name("e"), fold_name("\u{e9}"));
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
