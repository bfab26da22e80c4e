use super::*;

const OURS: &[u8] =
    b"{\"role\":\"user\",\"content\":\"one\"}\n{\"role\":\"user\",\"content\":\"two\"}\n";
const FIRST: usize = OURS.len() / 2;
const THEIRS: &[u8] = b"{\"role\":\"user\",\"content\":\"theirs\"}\n";

fn with(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn walk(found: &[u8], ours: &[u8]) -> (usize, Option<usize>) {
    super::walk(found, ours, found.len() > ours.len())
}

fn shares(log: &[u8], ours: &[u8]) -> bool {
    let (log, ours) = (Bytes::of(log.to_vec()), Bytes::of(ours.to_vec()));
    super::shares(&log, 0, &ours).unwrap()
}

#[test]
fn every_cut_of_our_lines_is_a_state_that_a_crash_leaves() {
    for cut in 0..=OURS.len() {
        let whole = memchr::memchr_iter(b'\n', &OURS[..cut]).count();
        assert_eq!(walk(&OURS[..cut], OURS), (whole, None), "cut at {cut}");
    }
}

#[test]
fn zeros_in_place_of_our_bytes_are_a_state_that_a_power_loss_leaves() {
    for from in 0..OURS.len() {
        for to in from..=OURS.len() {
            let mut found = OURS.to_vec();
            found[from..to].fill(0);
            assert_eq!(walk(&found, OURS).1, None, "zeros from {from} to {to}");
        }
    }
}

#[test]
fn lines_of_others_begin_where_ours_end_however_far_those_were_written() {
    for cut in 0..=OURS.len() {
        let found = with(&[&OURS[..cut], THEIRS]);
        // What begins as both do is ours or theirs: it is the same text.
        let (_, at) = walk(&found, OURS);
        let at = at.unwrap();
        assert!(
            found[at..].ends_with(THEIRS),
            "cut at {cut}: theirs begin at {at}"
        );
        assert!(at <= cut, "cut at {cut}: theirs begin at {at}");
        let line = OURS[..cut]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |lf| lf + 1);
        assert!(at >= line, "cut at {cut}: a whole line of ours is theirs");
    }
}

#[test]
fn a_damaged_line_of_ours_is_no_line_of_others() {
    let mut found = OURS.to_vec();
    found[2] = b'"';
    assert_eq!(walk(&found, OURS), (1, None));
    // One that decodes was edited.
    let mut found = OURS.to_vec();
    found[FIRST - 4] = b'E';
    assert_eq!(walk(&found, OURS).1, Some(0));
}

#[test]
fn who_wrote_a_file_anew_has_our_lines_after_others() {
    assert!(shares(&with(&[THEIRS, &OURS[FIRST..]]), OURS));
    assert!(shares(OURS, &with(&[THEIRS, &OURS[FIRST..]])));
    assert!(!shares(THEIRS, OURS));
    let at = |text: &str| {
        let line = r#"{"role":"user","content":"TEXT","created_at":"2026-01-02T03:04:05Z"}"#;
        line.replace("TEXT", text).into_bytes()
    };
    assert!(shares(&at("edited"), &at("as it was")));
}
