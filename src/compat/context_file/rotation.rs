//! The names of older versions of a context file.

use std::path::Path;

/// The name for the next backup of `file_name` beside the `existing` names: the highest number in
/// use, plus one. Directories count, and so do numbers with leading zeros.
pub(crate) fn next<'a>(file_name: &str, existing: impl Iterator<Item = &'a str>) -> String {
    let (stem, suffix) = split(file_name);
    let highest = existing.filter_map(|name| number(name, stem, suffix)).max();
    let next = highest.unwrap_or(0).saturating_add(1);
    format!("{stem}_{next}{suffix}")
}

/// Python's `stem` and `suffix` of a path.
fn split(file_name: &str) -> (&str, &str) {
    match Path::new(file_name).extension() {
        Some(extension) if !extension.is_empty() => {
            file_name.split_at(file_name.len() - extension.len() - 1)
        }
        _ => (file_name, ""),
    }
}

fn number(name: &str, stem: &str, suffix: &str) -> Option<u128> {
    let digits = name
        .strip_prefix(stem)?
        .strip_prefix('_')?
        .strip_suffix(suffix)?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn the_highest_number_counts_and_nothing_else_does() {
        for (file, existing, expected) in [
            ("context.jsonl", &[][..], "context_1.jsonl"),
            (
                "context.jsonl",
                &["context_03.jsonl", "context_x.jsonl", "context_9.jsonl.bak"],
                "context_4.jsonl",
            ),
            (
                "my.log.jsonl",
                &["my_7.log.jsonl", "my.log_2.jsonl"],
                "my.log_3.jsonl",
            ),
            (
                "noext",
                &["noext_5", "noext__9", "noext_6.jsonl"],
                "noext_6",
            ),
            (".hidden", &[".hidden_1"], ".hidden_2"),
        ] {
            assert_eq!(next(file, existing.iter().copied()), expected, "{file}");
        }
    }
}
