//! A stat cache is used or ignored; no bytes in it end the program.
//!
//! The checks over the bytes are put right first: no mutation would ever get past them.
#![no_main]

use dmv_core::fsutil::SafeDir;
use dmv_core::hash::check;
use dmv_core::store::RepositoryId;
use dmv_core::worktree::statcache::StatCache;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

const REPO: RepositoryId = RepositoryId::from_bytes([7; 16]);
const HEADER: usize = 64;
const ROW: usize = 36;
const TRAILER: usize = 24;

static DIR: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary directory"));

fuzz_target!(|data: &[u8]| {
    let mut file = data.to_vec();
    mend(&mut file);
    let name = format!("stat{}", std::process::id());
    std::fs::write(DIR.path().join(&name), &file).expect("a temporary file");
    let dir = SafeDir::open_root(DIR.path()).expect("a temporary directory");
    let Some(cache) = StatCache::open(&dir, name.as_bytes(), &REPO) else {
        return;
    };
    let _ = cache.base_tree();
    for path in [&b""[..], b"a", b"a/b", b"media"] {
        if let Ok(Some(section)) = cache.section(path) {
            assert_eq!(section.iter().count(), section.len());
        }
    }
});

/// Gives the bytes the header of a stat cache, and the checks that fit them.
fn mend(file: &mut [u8]) {
    if file.len() < HEADER + TRAILER {
        return;
    }
    file[..8].copy_from_slice(b"DMVSTAT\n");
    file[8..10].copy_from_slice(&1u16.to_le_bytes());
    file[10..16].fill(0);
    file[16..32].copy_from_slice(REPO.as_bytes());
    let end = file.len() - TRAILER;
    let number = |file: &[u8], at: usize, len: usize| {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&file[at..at + len]);
        usize::try_from(u64::from_le_bytes(bytes)).unwrap_or(usize::MAX)
    };
    let (table, rows) = (number(file, end, 8), number(file, end + 8, 4));
    if table < HEADER || table > end {
        return;
    }
    for row in (0..rows.min((end - table) / ROW)).map(|n| table + n * ROW) {
        let (from, len) = (number(file, row, 8), number(file, row + 8, 4));
        let section = from.checked_add(len).and_then(|to| file.get(from..to));
        if let Some(mended) = section.map(|section| check(&[section])) {
            file[row + 28..row + 36].copy_from_slice(&mended);
        }
    }
    let mended = check(&[&file[..HEADER], &file[table..end], &file[end..end + 16]]);
    file[end + 16..].copy_from_slice(&mended);
}
