use super::*;
use crate::disk::files::lines::LONGEST;

fn line(text: &str) -> String {
    format!(r#"{{"role":"user","content":"{text}"}}"#) + "\n"
}

fn lines(texts: &str) -> Vec<u8> {
    texts
        .split_whitespace()
        .flat_map(|text| line(text).into_bytes())
        .collect()
}

/// Returns the rest of `ours`, of which the first `skip` lines are hidden, and the number of hidden
/// lines in it, if another program hid the first `first` of `found`.
fn hidden(ours: &[u8], skip: i64, found: &[u8], first: i64) -> (Vec<u8>, i64) {
    let (ours, found) = (Bytes::of(ours.to_vec()), Bytes::of(found.to_vec()));
    let (left, skip) = hide(ours, skip, &found, first).unwrap();
    (left.behind, skip)
}

#[test]
fn what_others_hid_at_the_beginning_is_hidden_and_stays_in_the_file() {
    let ours = lines("a b c d");
    assert_eq!(hidden(&ours, 0, &lines("a b c"), 2), (ours.clone(), 2));
    // More than ours hid, and less.
    assert_eq!(hidden(&ours, 1, &lines("a b c"), 3), (ours.clone(), 3));
    assert_eq!(hidden(&ours, 3, &lines("a b c"), 2), (ours, 3));
}

#[test]
fn lines_that_others_never_saw_stay_visible_between_those_they_hid() {
    // `b` was written after they had looked.
    let (left, skip) = hidden(&lines("a b c"), 0, &lines("a c"), 2);
    assert_eq!((left, skip), (lines("a b"), 1));
}

#[test]
fn a_line_hidden_once_hides_one_of_two_that_are_the_same() {
    let (left, skip) = hidden(&lines("a a b"), 0, &lines("a b"), 1);
    assert_eq!((left, skip), (lines("a a b"), 1));
}

#[test]
fn a_line_too_long_to_walk_is_kept_whole_if_lines_after_it_go() {
    let mut ours = lines("a");
    ours.resize(ours.len() + LONGEST as usize + 1, b'x');
    ours.push(b'\n');
    let kept = ours.len();
    ours.extend(lines("b"));
    let (left, skip) = hidden(&ours, 0, &lines("a b"), 2);
    assert_eq!(skip, 1);
    assert!(
        left == ours[..kept],
        "{} of {kept} bytes are left",
        left.len()
    );
}

#[test]
fn a_line_is_missed_unless_it_is_shown_as_often_as_it_was_written() {
    let misses = |found: &str, hidden, ours: &str, skip| {
        let found = Bytes::of(lines(found));
        let ours = Bytes::of(lines(ours));
        missing(Some((&found, hidden)), &ours, skip).unwrap().all > 0
    };
    assert!(!misses("a b", 0, "a b", 0));
    assert!(misses("a b", 1, "a b", 0));
    assert!(!misses("a b", 1, "a b", 1));
    assert!(misses("a b", 0, "a a b", 0));
    let ours = Bytes::of(lines("a"));
    assert_eq!(missing(None, &ours, 0).unwrap().all, 1);
    assert_eq!(missing(None, &ours, 1).unwrap().all, 0);
}

#[test]
fn a_message_written_anew_with_other_spaces_and_order_is_the_same() {
    let anew = Bytes::of(b"{ \"content\": \"a\", \"role\": \"user\" }\n".to_vec());
    let missing = missing(Some((&anew, 0)), &Bytes::of(lines("a")), 0).unwrap();
    assert_eq!(missing.all, 0);
}

#[test]
fn only_lines_that_count_are_counted_off() {
    let text = b"\n{\"role\":\"user\"}\n\n{\"role\":\"tool\"}\n";
    assert_eq!(without_first(text, 0), text[1..]);
    assert_eq!(without_first(text, 1), text[18..]);
    assert_eq!(without_first(text, 2), b"");
}

#[test]
fn a_line_that_others_edited_is_not_missing_and_each_edit_stands_for_one_line() {
    let timed = |text: &str| {
        let line =
            format!(r#"{{"role":"user","content":"{text}","created_at":"2026-01-01T00:00:00Z"}}"#)
                + "\n";
        line.into_bytes()
    };
    let ours = Bytes::of([timed("a"), timed("b")].concat());
    let missing_of = |found: Vec<u8>| {
        let found = Bytes::of(found);
        let Missing { all, unedited } = missing(Some((&found, 0)), &ours, 0).unwrap();
        (all, unedited)
    };
    assert_eq!(missing_of(timed("a")), (1, 1));
    assert_eq!(missing_of(timed("b")), (1, 1));
    assert_eq!(missing_of([timed("a"), timed("edited")].concat()), (1, 0));
    assert_eq!(missing_of(timed("edited")), (2, 1));
    assert_eq!(missing_of(lines("edited")), (2, 2));
}
