use super::dirs::OPEN_DIRS;
use super::queue::AHEAD_DIRS;
use super::*;
use crate::fsutil::Fingerprint;
use crate::subset::Subset;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::LazyLock;

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;
type Sections = BTreeMap<Vec<u8>, Section>;

impl BaseEntries for Sections {
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.get(dir).cloned())
    }
}

fn options<'a>() -> ScanOptions<'a> {
    static RULES: LazyLock<IgnoreRules> = LazyLock::new(IgnoreRules::default);
    static ALL: LazyLock<Subset> = LazyLock::new(Subset::everything);
    static GO_ON: AtomicBool = AtomicBool::new(false);
    ScanOptions {
        known: &EmptyBase,
        ignore: &RULES,
        select: &Everything,
        subset: &ALL,
        list_ignored: true,
        one_file_system: true,
        threads: 3,
        cancel: &GO_ON,
    }
}

/// Returns everything that a scan of `root` reports, one line per entry.
fn lines(root: &Path, options: ScanOptions<'_>) -> Result<Vec<String>> {
    let mut out = Vec::new();
    scan::<ScanError>(&SafeDir::open_root(root)?, &options, |result| {
        let mut line = format!("[{}]", result.path.escape_ascii());
        match result.outcome {
            Outcome::Read => {}
            _ => write!(line, " {:?}", result.outcome).expect("to a string"),
        }
        out.push(line);
        for (name, state) in result.entries() {
            let state = match state {
                State::Suspect { kind, .. } => format!("Suspect {kind:?}"),
                other => format!("{other:?}"),
            };
            out.push(format!("{} {state}", name.escape_ascii()));
        }
        Ok(())
    })?;
    Ok(out)
}

fn known_kind(path: &Path) -> Result<Kind> {
    let stat = std::fs::symlink_metadata(path)?;
    Ok(if stat.is_dir() {
        Kind::Directory
    } else if stat.is_symlink() {
        Kind::Symlink
    } else {
        Kind::File
    })
}

/// Collects sections according to which everything in `root` is unchanged.
fn remember(root: &Path, dir: &[u8], out: &mut Sections) -> Result {
    let path = root.join(crate::fsutil::os_str(dir));
    let handle = SafeDir::open_root(&path)?;
    let mut section = Section::default();
    for name in names(&path)? {
        let kind = known_kind(&path.join(crate::fsutil::os_str(&name)))?;
        match kind {
            Kind::Directory => {
                section.push(&name, kind, Fingerprint::SUSPECT);
                remember(root, &join(dir, &name), out)?;
            }
            _ => section.push(&name, kind, handle.stat(&name)?.fingerprint()),
        }
    }
    // However coarse the clock is, a later change differs from this time.
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    std::fs::File::open(&path)?.set_modified(long_ago)?;
    section.set_dir_fingerprint(handle.stat_self()?.fingerprint());
    out.insert(dir.to_vec(), section);
    Ok(())
}

fn names(path: &Path) -> Result<BTreeSet<Vec<u8>>> {
    std::fs::read_dir(path)?
        .map(|entry| Ok(entry?.file_name().as_bytes().to_vec()))
        .collect()
}

/// Returns what a scan should report, computed in a simple way.
fn model(root: &Path, dir: &[u8], known: Option<&Sections>, out: &mut Vec<String>) -> Result {
    let path = root.join(crate::fsutil::os_str(dir));
    let handle = SafeDir::open_root(&path)?;
    let empty = Section::default();
    let section = known.map_or(&empty, |known| &known[dir]);
    let expected: BTreeMap<&[u8], _> = section.iter().map(|e| (e.name, e)).collect();
    let on_disk = names(&path)?;
    let expected_names = expected.keys().map(|name| name.to_vec());
    let all: BTreeSet<Vec<u8>> = on_disk.iter().cloned().chain(expected_names).collect();
    out.push(format!("[{}]", dir.escape_ascii()));
    let mut subdirs = Vec::new();
    for name in &all {
        let entry = expected.get(&name[..]);
        let mut line = |state: String| out.push(format!("{} {state}", name.escape_ascii()));
        if !on_disk.contains(name) {
            let kind = entry.expect("on one side").kind;
            line(format!("Gone {{ kind: {kind:?} }}"));
            continue;
        }
        let now = handle.stat(name)?;
        match entry.map(|e| e.kind) {
            None if now.kind == FileKind::Dir => line("Dir { known: false }".into()),
            None => line(format!("New {{ kind: {:?} }}", now.kind)),
            Some(Kind::Directory) if now.kind == FileKind::Dir => {
                line("Dir { known: true }".into());
            }
            Some(Kind::File) if now.kind == FileKind::File => {
                if entry.expect("known").fingerprint != now.fingerprint() {
                    line("Suspect File".into());
                }
            }
            Some(Kind::Symlink) if now.kind == FileKind::Symlink => {
                if entry.expect("known").fingerprint != now.fingerprint() {
                    line("Suspect Symlink".into());
                }
            }
            Some(was) => line(format!(
                "TypeChanged {{ was: {was:?}, now: {:?} }}",
                now.kind
            )),
        }
        if now.kind == FileKind::Dir {
            subdirs.push((name, entry.is_some_and(|e| e.kind == Kind::Directory)));
        }
    }
    for (name, was_known) in subdirs {
        model(root, &join(dir, name), known.filter(|_| was_known), out)?;
    }
    Ok(())
}

/// Puts something at `path`, in place of anything that is there. A parent may turn out to be a
/// file.
fn put(path: &Path, what: u8) {
    let _ = std::fs::remove_dir_all(path);
    let _ = std::fs::remove_file(path);
    if let Some(parent) = path.parent() {
        let _ = std::fs::create_dir_all(parent);
    }
    let _ = match what {
        0 => std::fs::create_dir_all(path),
        1 => symlink("a", path),
        2 => Ok(()),
        n => std::fs::write(path, vec![b'x'; n.into()]),
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(dmv_random::cases(32)))]
    #[test]
    fn scan_says_what_a_simple_walk_says(
        before in prop::collection::vec(("[ab-]{1,2}(/[ab-]{1,2}){0,3}", 0u8..8), 0..30),
        after in prop::collection::vec(("[ab-]{1,2}(/[ab-]{1,2}){0,3}", 0u8..8), 0..10),
    ) {
        let temp = tempfile::tempdir().expect("a directory");
        let root = temp.path();
        before.iter().for_each(|(path, what)| put(&root.join(path), *what));
        let mut known = Sections::new();
        remember(root, b"", &mut known).expect("reads");
        after.iter().for_each(|(path, what)| put(&root.join(path), *what));
        let mut want = Vec::new();
        model(root, b"", Some(&known), &mut want).expect("reads");
        let got = lines(root, ScanOptions { known: &known, ..options() }).expect("scans");
        prop_assert_eq!(got, want);
    }
}

#[test]
fn what_is_unchanged_is_counted_only() -> Result {
    let temp = tempfile::tempdir()?;
    std::fs::create_dir_all(temp.path().join("a/b"))?;
    std::fs::write(temp.path().join("a/b/f"), "x")?;
    std::fs::write(temp.path().join("a/f"), "x")?;
    symlink("nowhere", temp.path().join("a/l"))?;
    let mut known = Sections::new();
    remember(temp.path(), b"", &mut known)?;
    let got = lines(
        temp.path(),
        ScanOptions {
            known: &known,
            ..options()
        },
    )?;
    let want = [
        "[]",
        "a Dir { known: true }",
        "[a]",
        "b Dir { known: true }",
        "[a/b]",
    ];
    assert_eq!(got, want);
    // Zero means "must be read", even if the fingerprint of a stat should be zero.
    let mut section = Section::default();
    section.push(b"f", Kind::File, Fingerprint::SUSPECT);
    known.insert(b"a/b".to_vec(), section);
    let got = lines(
        temp.path(),
        ScanOptions {
            known: &known,
            ..options()
        },
    )?;
    assert_eq!(got[5..], ["f Suspect File"]);
    Ok(())
}

#[test]
fn a_directory_that_shows_no_change_is_not_listed() -> Result {
    let temp = tempfile::tempdir()?;
    let root = SafeDir::open_root(temp.path())?;
    if !root.tells_name_changes() {
        return Ok(()); // Every directory is listed there.
    }
    std::fs::create_dir_all(temp.path().join("d/sub"))?;
    std::fs::create_dir(temp.path().join(".dmv"))?;
    std::fs::write(temp.path().join("d/f"), "x")?;
    std::fs::write(temp.path().join("d/g"), "x")?;
    let mut known = Sections::new();
    let mut section = Section::default();
    section.push(b"d", Kind::Directory, Fingerprint::SUSPECT);
    known.insert(b"".to_vec(), section);
    remember(temp.path(), b"d", &mut known)?;
    let exact = |known: &Sections| -> Result<Sections> {
        let (mut out, options) = (known.clone(), ScanOptions { known, ..options() });
        scan::<ScanError>(&root, &options, |result| {
            if let (Some(stat), Some(section)) = (result.exact, out.get_mut(&result.path)) {
                section.set_dir_fingerprint(stat.fingerprint());
            }
            Ok(())
        })?;
        Ok(out)
    };
    known = exact(&known)?;
    assert!(
        known
            .values()
            .all(|s| s.dir_fingerprint() != Fingerprint::SUSPECT)
    );
    // Now only known names are examined: the other names of the root are not reported.
    let scan_known = |known: &Sections| lines(temp.path(), ScanOptions { known, ..options() });
    let quiet = [
        "[]",
        "d Dir { known: true }",
        "[d]",
        "sub Dir { known: true }",
        "[d/sub]",
    ];
    assert_eq!(scan_known(&known)?, quiet);
    std::fs::write(temp.path().join("d/f"), "changed")?;
    let got = scan_known(&known)?;
    assert_eq!(got[3..5], ["f Suspect File", "sub Dir { known: true }"]);
    std::fs::write(temp.path().join("d/new"), "")?;
    std::fs::remove_file(temp.path().join("d/g"))?;
    let got = scan_known(&known)?;
    assert_eq!(
        got[4..6],
        ["g Gone { kind: File }", "new New { kind: File }"]
    );
    // A directory with more or fewer entries than the known ones is never exact.
    for section in known.values_mut() {
        section.set_dir_fingerprint(Fingerprint::SUSPECT);
    }
    let known = exact(&known)?;
    assert_eq!(known[&b"d"[..]].dir_fingerprint(), Fingerprint::SUSPECT);
    assert_ne!(known[&b"d/sub"[..]].dir_fingerprint(), Fingerprint::SUSPECT);
    Ok(())
}

#[test]
fn a_directory_without_a_known_one_is_not_exact_if_another_name_makes_up_the_number() -> Result {
    let temp = tempfile::tempdir()?;
    std::fs::create_dir(temp.path().join("d"))?;
    std::fs::write(temp.path().join(".dmvignore"), "*.tmp\n")?;
    std::fs::write(temp.path().join("d/x.tmp"), "")?;
    let mut known = Sections::new();
    for (dir, name, kind) in [
        (&b""[..], &b"d"[..], Kind::Directory),
        (b"d", b"sub", Kind::Directory),
        (b"d/sub", b"f", Kind::File),
    ] {
        let mut section = Section::default();
        section.push(name, kind, Fingerprint::SUSPECT);
        known.insert(dir.to_vec(), section);
    }
    let subset = Subset::new([&b"d/sub/f"[..]])?;
    let options = ScanOptions {
        known: &known,
        subset: &subset,
        list_ignored: false,
        ..options()
    };
    let mut exact = Vec::new();
    scan::<ScanError>(&SafeDir::open_root(temp.path())?, &options, |result| {
        exact.extend(result.exact.is_some().then_some(result.path));
        Ok(())
    })?;
    assert!(exact.is_empty(), "{exact:?}");
    Ok(())
}

#[test]
fn a_large_directory_is_shared_among_workers() -> Result {
    let temp = tempfile::tempdir()?;
    let total = 3 * SLICE;
    for i in 0..total {
        std::fs::write(temp.path().join(format!("f{i}")), "")?;
    }
    let mut known = Sections::new();
    remember(temp.path(), b"", &mut known)?;
    std::fs::write(temp.path().join("f7"), "changed")?;
    std::fs::remove_file(temp.path().join("f5000"))?;
    std::fs::write(temp.path().join(format!("f{}", total - 1)), "changed")?;
    let got = lines(
        temp.path(),
        ScanOptions {
            known: &known,
            ..options()
        },
    )?;
    let last = format!("f{} Suspect File", total - 1);
    let mut want = ["f5000 Gone { kind: File }", "f7 Suspect File", &last];
    want.sort_unstable();
    assert_eq!(got[1..], want);
    Ok(())
}

#[test]
fn depth_beyond_open_files_and_path_lengths_is_reached() -> Result {
    let temp = tempfile::tempdir()?;
    let name = [b'n'; 60];
    let depth = OPEN_DIRS * 3;
    let mut here = SafeDir::open_root(temp.path())?;
    for _ in 0..depth {
        here.create_dir(&name, false)?;
        here.create_dir(b"z", false)?;
        here = here.open_dir(&name)?;
    }
    let got = lines(temp.path(), options())?;
    assert_eq!(got.len(), (depth + 1) + depth * 2 + depth);
    assert_eq!(got.last().map(String::as_str), Some("[z]"));
    assert!(!got.iter().any(|line| line.contains("] ")));
    Ok(())
}

#[test]
fn many_directories_pass_the_look_ahead_in_order() -> Result {
    let temp = tempfile::tempdir()?;
    for i in 0..3 * AHEAD_DIRS {
        std::fs::create_dir_all(temp.path().join(format!("d{i:04}/s")))?;
    }
    let mut want = Vec::new();
    model(temp.path(), b"", None, &mut want)?;
    for threads in [0, 1, 2, 7] {
        let got = lines(
            temp.path(),
            ScanOptions {
                threads,
                ..options()
            },
        )?;
        assert_eq!(got, want);
    }
    Ok(())
}

#[test]
fn ignored_entries_are_left_out_and_known_ones_are_not() -> Result {
    let temp = tempfile::tempdir()?;
    std::fs::create_dir_all(temp.path().join("out/deep"))?;
    std::fs::create_dir_all(temp.path().join("tmp"))?;
    for name in ["out/known", "a.o", "known.o"] {
        std::fs::write(temp.path().join(name), "")?;
    }
    let mut known = Sections::new();
    let mut root = Section::default();
    root.push(b"known.o", Kind::File, Fingerprint::SUSPECT);
    root.push(b"out", Kind::Directory, Fingerprint::SUSPECT);
    let mut out = Section::default();
    out.push(b"known", Kind::File, Fingerprint::SUSPECT);
    known.insert(b"".to_vec(), root);
    known.insert(b"out".to_vec(), out);
    std::fs::write(temp.path().join("out/new"), "")?;
    std::fs::write(temp.path().join(".dmvignore"), "*.o\nout/\ntmp\n")?;
    let got = lines(
        temp.path(),
        ScanOptions {
            known: &known,
            ..options()
        },
    )?;
    let want = [
        "[]",
        ".dmvignore New { kind: File }",
        "a.o Ignored { kind: File }",
        "known.o Suspect File",
        "out Dir { known: true }",
        "tmp Ignored { kind: Dir }",
        "[out]",
        "deep Ignored { kind: Dir }",
        "known Suspect File",
        "new Ignored { kind: File }",
    ];
    assert_eq!(got, want);
    Ok(())
}

#[test]
fn only_what_is_selected_is_reported() -> Result {
    struct OnlyB;
    impl Select for OnlyB {
        fn enters(&self, dir: &[u8]) -> bool {
            dir == b"b"
        }
        fn takes(&self, dir: &[u8], name: &[u8]) -> bool {
            dir == b"b" || name == b"b"
        }
    }
    let temp = tempfile::tempdir()?;
    for dir in ["a", "b", "c"] {
        std::fs::create_dir(temp.path().join(dir))?;
        std::fs::write(temp.path().join(dir).join("f"), "")?;
    }
    let mut known = Sections::new();
    remember(temp.path(), b"", &mut known)?;
    std::fs::remove_dir_all(temp.path().join("a"))?;
    std::fs::remove_file(temp.path().join("b/f"))?;
    let got = lines(
        temp.path(),
        ScanOptions {
            known: &known,
            select: &OnlyB,
            ..options()
        },
    )?;
    let want = [
        "[]",
        "b Dir { known: true }",
        "[b]",
        "f Gone { kind: File }",
    ];
    assert_eq!(got, want);
    Ok(())
}

#[test]
fn what_no_tree_may_hold_is_skipped() -> Result {
    let temp = tempfile::tempdir()?;
    for dir in [".dmv", ".GIT", "sub/.git"] {
        std::fs::create_dir_all(temp.path().join(dir))?;
    }
    std::fs::write(temp.path().join(".dmv-tmp-0123456789abcdef"), "")?;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, temp.path().join("pipe"), mode)?;
    let got = lines(temp.path(), options())?;
    let want = [
        "[]",
        ".GIT Skipped { known: None, reason: BadName(Control) }",
        ".dmv Skipped { known: None, reason: Control }",
        ".dmv-tmp-0123456789abcdef Skipped { known: None, reason: Temporary }",
        "pipe Skipped { known: None, reason: Special(Fifo) }",
        "sub Dir { known: false }",
        "[sub]",
        ".git Skipped { known: None, reason: Control }",
    ];
    assert_eq!(got, want);
    Ok(())
}

#[test]
fn a_scan_ends_when_told_to() -> Result {
    let temp = tempfile::tempdir()?;
    std::fs::create_dir_all(temp.path().join("a/b/c"))?;
    let cancel = AtomicBool::new(true);
    let error = lines(
        temp.path(),
        ScanOptions {
            cancel: &cancel,
            ..options()
        },
    )
    .expect_err("cancelled");
    assert_eq!(error.to_string(), "cancelled");
    let root = SafeDir::open_root(temp.path())?;
    let mut seen = 0;
    let stopped: Result<(), Box<dyn std::error::Error>> = scan(&root, &options(), |_| {
        seen += 1;
        Err("enough".into())
    });
    assert_eq!(stopped.expect_err("stopped").to_string(), "enough");
    assert_eq!(seen, 1);
    Ok(())
}

#[test]
fn a_known_directory_without_a_section_is_taken_for_a_new_one() -> Result {
    let temp = tempfile::tempdir()?;
    std::fs::create_dir(temp.path().join("a"))?;
    std::fs::write(temp.path().join("a/f"), "x")?;
    let mut known = Sections::new();
    remember(temp.path(), b"", &mut known)?;
    known.remove(&b"a"[..]);
    let known = ScanOptions {
        known: &known,
        ..options()
    };
    let found = lines(temp.path(), known)?;
    assert!(
        found.contains(&"f New { kind: File }".to_owned()),
        "{found:?}"
    );
    Ok(())
}

#[test]
fn an_unreadable_directory_says_nothing_about_its_entries() -> Result {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        return Ok(()); // Nothing is unreadable for this user.
    }
    let temp = tempfile::tempdir()?;
    let closed = temp.path().join("closed");
    let no_stat = temp.path().join("no_stat");
    for dir in [&closed, &no_stat] {
        std::fs::create_dir(dir)?;
        std::fs::write(dir.join("f"), "")?;
    }
    let mut known = Sections::new();
    remember(temp.path(), b"", &mut known)?;
    let set_mode =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    set_mode(&closed, 0o000)?;
    set_mode(&no_stat, 0o444)?;
    let options = ScanOptions {
        known: &known,
        ..options()
    };
    let got = lines(temp.path(), options);
    set_mode(&closed, 0o755)?;
    set_mode(&no_stat, 0o755)?;
    let got = got?;
    assert!(got[3].starts_with("[closed] Unreadable"), "{}", got[3]);
    let skipped = "f Skipped { known: Some(File), reason: Unreadable(13) }";
    assert_eq!(got[4..], ["[no_stat]", skipped]);
    Ok(())
}

#[test]
fn names_are_sorted_by_bytes() -> Result {
    let mut listing = Listing::default();
    let names = [
        "pre",
        "prefix-aaaaaaaab",
        "prefix-aaaaaaaaa",
        "prefix",
        "pre\u{e9}",
        "prea",
    ];
    for name in names {
        listing.push(name.as_bytes(), FileKind::File)?;
    }
    let got: Vec<&[u8]> = sorted(&listing)
        .into_iter()
        .map(|i| listing.name(i as usize))
        .collect();
    let mut want: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    want.sort_unstable();
    assert_eq!(got, want);
    assert!(sorted(&Listing::default()).is_empty());
    Ok(())
}

#[test]
fn a_directory_that_tells_no_kinds_is_compared_behind_a_skipped_name() -> Result {
    let temp = tempfile::tempdir()?;
    let root = SafeDir::open_root(temp.path())?;
    root.create_dir(b".dmv", false)?;
    root.create_new(b"new", false)?;
    let (mut listing, mut pairs, mut stats) = (Listing::default(), Vec::new(), Vec::new());
    for (number, name) in [&b".dmv"[..], b"new"].into_iter().enumerate() {
        listing.push(name, FileKind::Unknown)?;
        let number = number as u32;
        pairs.push(Pair {
            listed: number,
            known: NONE,
        });
        stats.push((number, root.try_stat(name)));
    }
    let mut result = DirScan::empty(Vec::new(), Outcome::Read, None);
    result.listing = Arc::new(listing);
    let options = options();
    let rules = IgnoreRules::default();
    classify(&options, &rules, false, &pairs, stats, &mut result);
    let states = result.entries().map(|(_, state)| format!("{state:?}"));
    let states: Vec<String> = states.collect();
    assert_eq!(states.len(), 2, "{states:?}");
    assert_eq!(states[1], "New { kind: File }");
    Ok(())
}
