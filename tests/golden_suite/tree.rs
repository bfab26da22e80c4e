//! Directories of files: read, compared, and made from recipes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::model::{HASHED, Tree, file_lines, hex};
use crate::subject::{list, text};

/// Everything below a directory, without the store's own files. Names of empty
/// and full directories end in `/`.
pub(crate) fn read_tree(dir: &Path) -> Result<Tree, String> {
    let mut tree = Tree::new();
    read_into(&mut tree, dir, "")?;
    Ok(tree)
}

fn read_into(tree: &mut Tree, dir: &Path, prefix: &str) -> Result<(), String> {
    for entry in fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let entry = entry.map_err(text)?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if name == ".sessionlog" {
            continue;
        }
        let path: PathBuf = entry.path();
        if path.is_dir() {
            tree.insert(format!("{name}/"), Vec::new());
            read_into(tree, &path, &format!("{name}/"))?;
        } else {
            tree.insert(name, fs::read(&path).map_err(text)?);
        }
    }
    Ok(())
}

/// The tree with the model's placeholders for file names of our choosing. The
/// sidecar says whose they are.
pub(crate) fn with_placeholders(tree: Tree, ours: &[String]) -> Tree {
    let mut stems = Vec::new();
    for name in ours.iter().filter(|name| name.starts_with(HASHED)) {
        let Some(stem) = name.strip_suffix(".meta.json") else {
            continue;
        };
        let found = tree.iter().find_map(|(name, bytes)| {
            let owner = file_content(name, bytes)["key"] == stem[HASHED.len()..];
            name.strip_suffix(".meta.json").filter(|_| owner)
        });
        stems.extend(found.map(|found| (found.to_owned(), stem.to_owned())));
    }
    let rename = |name: String| {
        let renamed = stems
            .iter()
            .find_map(|(found, stem)| Some((stem, name.strip_prefix(found.as_str())?)));
        match renamed {
            Some((stem, end @ (".jsonl" | ".meta.json"))) => format!("{stem}{end}"),
            _ => name,
        }
    };
    tree.into_iter()
        .map(|(name, bytes)| (rename(name), bytes))
        .collect()
}

/// What a file holds: lines of a history, the object of a sidecar.
pub(crate) fn file_content(name: &str, bytes: &[u8]) -> Value {
    if name.strip_suffix(".jsonl").is_some() {
        return file_lines(bytes);
    }
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}

/// Whether every file is as it was, and there is no other.
pub(crate) fn unchanged(before: &Tree, after: &Tree) -> Result<(), String> {
    for (name, bytes) in before {
        match after.get(name) {
            None => return Err(format!("{name} is gone")),
            Some(found) if found != bytes => {
                return Err(format!(
                    "{name} changed: {} bytes before, {} after",
                    bytes.len(),
                    found.len()
                ));
            }
            Some(_) => {}
        }
    }
    after
        .keys()
        .find(|name| !before.contains_key(*name))
        .map_or(Ok(()), |name| Err(format!("{name} is new")))
}

/// Puts the files that are too big to ship into the tree.
pub(crate) fn expand(recipe: &Value, tree: &mut Tree) -> Result<(), String> {
    for file in list(&recipe["files"]) {
        let name = file["file"].as_str().ok_or("a recipe without file")?;
        let mut bytes = Vec::new();
        for segment in list(&file["segments"]) {
            let repeat = segment["repeat"].as_u64().unwrap_or(1) as usize;
            bytes.extend(
                segment["text"]
                    .as_str()
                    .unwrap_or("")
                    .repeat(repeat)
                    .into_bytes(),
            );
        }
        if json!(bytes.len()) != file["bytes"]
            || json!(hex(&Sha256::digest(&bytes))) != file["sha256"]
        {
            return Err(format!(
                "the recipe of {name} does not give the recorded file"
            ));
        }
        tree.insert(name.into(), bytes);
    }
    Ok(())
}
