//! The files of the source tree, as the rules read them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file name endings of our text files.
const TEXT: [&str; 8] = ["rs", "md", "toml", "txt", "tsv", "yml", "sh", "run"];
/// Directories that do not belong to the source tree.
const SKIP: [&str; 7] = [
    "target",
    "node_modules",
    ".git",
    ".dmv",
    "corpus",
    "artifacts",
    "coverage",
];

/// Ends of names that editors, merges and patches leave behind.
const LEFT_OVERS: [&str; 4] = [".orig", ".rej", "~", ".bak"];

/// Returns the root of the source tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns all text files, as paths from the root with their content, sorted by path.
pub fn tree() -> BTreeMap<String, String> {
    let root = root();
    let mut files = BTreeMap::new();
    let mut dirs = vec![root.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).expect("the source tree can be listed") {
            let path = entry.expect("the source tree can be listed").path();
            let name = path
                .file_name()
                .expect("it has a name")
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                if !SKIP.contains(&name.as_str()) {
                    dirs.push(path);
                }
                continue;
            }
            if LEFT_OVERS.iter().any(|end| name.ends_with(end)) {
                panic!("{} is a left-over: delete it", path.display());
            }
            let ending = name.rsplit('.').next().unwrap_or_default();
            if TEXT.contains(&ending) || name == "run" {
                let text = std::fs::read_to_string(&path).expect("source files are UTF-8");
                let path = path.strip_prefix(&root).expect("it is below the root");
                files.insert(path.to_string_lossy().into_owned(), text);
            }
        }
    }
    assert!(
        files.contains_key("crates/dmv-core/src/lib.rs"),
        "the tree was not found"
    );
    files
}
