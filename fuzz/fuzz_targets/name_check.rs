//! A name that is accepted is one component, and no file system takes it for a control directory.
#![no_main]

use dmv_core::object::name::{
    RepoPath, SafeName, check_name, escape, fold_key, is_control_name, portability,
};
use dmv_core::refs::check_ref_name;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let shown = escape(data).to_string();
    assert!(shown.chars().all(|c| !c.is_control()));
    let _ = portability(data);
    let _ = fold_key(data);
    let verdict = check_name(data);
    assert_eq!(SafeName::new(data).is_ok(), verdict.is_ok());
    if verdict.is_ok() {
        assert!((1..=255).contains(&data.len()));
        assert!(data != b"." && data != b".." && !data.contains(&b'/') && !data.contains(&0));
        assert!(!is_control_name(data));
    }
    if let Ok(path) = RepoPath::parse(data) {
        assert!(path.components().all(|part| check_name(part).is_ok()));
        assert_eq!(RepoPath::parse(path.as_bytes()).as_ref(), Ok(&path));
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = check_ref_name(text);
    }
});
