//! What plans do, and what they refuse.

use super::*;
use crate::platform::Origin;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// A blob here is its own content. One that begins with `!` cannot be read.
struct Literal;

impl Content<&'static str> for Literal {
    fn write_blob(&self, blob: &&'static str, sink: &mut Sink<'_>) -> Result<(), BoxError> {
        for byte in blob.as_bytes() {
            match byte {
                b'!' => return Err("not stored here".into()),
                _ => sink(Piece::Read(&[*byte], None))?,
            }
        }
        Ok(())
    }
}

fn file(path: &str, blob: &'static str) -> NewFile<&'static str> {
    NewFile {
        path: path.into(),
        exec: false,
        private: false,
        modified: None,
        xattrs: Default::default(),
        access: WriteAccess::Usual,
        blob,
        replaces: None,
    }
}

fn link(path: &str, target: &str) -> NewSymlink {
    NewSymlink {
        path: path.into(),
        target: target.into(),
        replaces: None,
    }
}

fn run(root: &Path, plan: &Plan<&'static str>) -> Result<Report> {
    let root = SafeDir::open_root(root)?;
    let (cancel, replaced) = (AtomicBool::new(false), ReplacedEntries::new(&root));
    let mut report = apply_plan(&root, plan, &Literal, 3, &cancel, &replaced)?;
    report.refused.extend(replaced.finish());
    Ok(report)
}

fn refusals(report: &Report) -> Vec<String> {
    let show = |r: &RefusedPath| format!("{}: {}", r.path.escape_ascii(), r.why);
    report.refused.iter().map(show).collect()
}

fn fingerprint(root: &Path, path: &str) -> Result<Fingerprint> {
    let (dir, name) = split_path(path.as_bytes()).ok_or("a path")?;
    let dir = SafeDir::open_root(root)?.open_dir(dir)?;
    Ok(dir.stat(name)?.fingerprint())
}

/// Returns a file's content only while no entry has its name.
struct Unseen<'a>(&'a Path);

impl Content<&'static str> for Unseen<'_> {
    fn write_blob(&self, blob: &&'static str, sink: &mut Sink<'_>) -> Result<(), BoxError> {
        if self.0.join("new/f").exists() {
            Err("it has its name already".into())
        } else {
            Ok(sink(Piece::Read(blob.as_bytes(), None))?)
        }
    }
}

/// Content that another file has, too, at the same places of blocks. It comes in pieces that end within blocks.
struct Elsewhere<'a> {
    bytes: &'a [u8],
    file: &'a File,
    is_shared: bool,
}

impl Content<&'static str> for Elsewhere<'_> {
    fn write_blob(&self, _: &&'static str, sink: &mut Sink<'_>) -> Result<(), BoxError> {
        let (file, mut at) = (self.file, 0);
        for bytes in self.bytes.chunks(10_001) {
            sink(Piece::Read(bytes, Some(Origin { file, at })))?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    fn may_share(&self, _: &&'static str) -> bool {
        self.is_shared
    }
}

#[test]
fn bytes_that_another_file_has_stay_in_order() -> Result {
    let bytes: Vec<u8> = (0..30_000u32).flat_map(u32::to_le_bytes).collect();
    for is_shared in [false, true] {
        let temp = tempfile::tempdir()?;
        let root = SafeDir::open_root(temp.path())?;
        std::fs::write(temp.path().join("other"), &bytes)?;
        let content = Elsewhere {
            bytes: &bytes,
            file: &File::open(temp.path().join("other"))?,
            is_shared,
        };
        let plan = Plan {
            make_dirs: vec![b"new".to_vec()],
            files: vec![file("f", ""), file("new/f", "")],
            ..Plan::default()
        };
        let (cancel, replaced) = (AtomicBool::new(false), ReplacedEntries::new(&root));
        let report = apply_plan(&root, &plan, &content, 1, &cancel, &replaced)?;
        assert_eq!(refusals(&report), [""; 0]);
        for path in ["f", "new/f"] {
            let found = std::fs::read(temp.path().join(path))?;
            assert!(found == bytes, "{path}, shared: {is_shared}");
        }
    }
    Ok(())
}

/// Content of a length that no file can have.
struct TooLong;

impl Content<&'static str> for TooLong {
    fn write_blob(&self, _: &&'static str, sink: &mut Sink<'_>) -> Result<(), BoxError> {
        Ok(sink(Piece::Length(u64::MAX))?)
    }
}

#[test]
fn a_length_that_the_disk_does_not_take_is_a_failed_write() -> Result {
    let temp = tempfile::tempdir()?;
    let root = SafeDir::open_root(temp.path())?;
    let plan = Plan {
        files: vec![file("f", "")],
        ..Plan::default()
    };
    let (cancel, replaced) = (AtomicBool::new(false), ReplacedEntries::new(&root));
    let report = apply_plan(&root, &plan, &TooLong, 1, &cancel, &replaced)?;
    let [why] = &refusals(&report)[..] else {
        return Err("one file is refused".into());
    };
    assert!(why.contains("write"), "{why}");
    assert_eq!(std::fs::read_dir(temp.path())?.count(), 0);
    Ok(())
}

#[test]
fn a_file_gets_its_name_when_it_is_complete_if_asked() -> Result {
    for rename_always in [true, false] {
        let temp = tempfile::tempdir()?;
        let root = SafeDir::open_root(temp.path())?;
        let plan = Plan {
            make_dirs: vec![b"new".to_vec()],
            files: vec![file("new/f", "one")],
            rename_always,
            ..Plan::default()
        };
        let cancel = AtomicBool::new(false);
        let report = apply_plan(
            &root,
            &plan,
            &Unseen(temp.path()),
            1,
            &cancel,
            &ReplacedEntries::new(&root),
        )?;
        assert_eq!(report.refused.is_empty(), rename_always);
    }
    Ok(())
}

#[test]
fn a_plan_is_carried_out() -> Result {
    let temp = tempfile::tempdir()?;
    let root = temp.path();
    std::fs::create_dir_all(root.join("old/deep"))?;
    std::fs::write(root.join("old/deep/f"), "x")?;
    std::fs::write(root.join("now-dir"), "x")?;
    std::fs::write(root.join("same"), "before")?;
    symlink("a", root.join("link"))?;
    let removal = |path: &str| -> Result<Removal> {
        Ok(Removal {
            path: path.into(),
            expected: fingerprint(root, path)?,
        })
    };
    let plan = Plan {
        remove: vec![removal("now-dir")?, removal("old/deep/f")?],
        remove_dirs: vec![b"old".to_vec(), b"old/deep".to_vec()],
        make_dirs: vec![b"new".to_vec(), b"new/sub".to_vec(), b"now-dir".to_vec()],
        files: vec![
            file("new/f", "one"),
            NewFile {
                exec: true,
                ..file("new/sub/run", "two")
            },
            file("now-dir/f", ""),
            file("old", "a directory before"),
            NewFile {
                replaces: Some(fingerprint(root, "same")?),
                ..file("same", "after")
            },
        ],
        symlinks: vec![
            NewSymlink {
                replaces: Some(fingerprint(root, "link")?),
                ..link("link", "b")
            },
            link("new/link", "/etc/passwd"),
        ],
        rename_always: false,
        in_use: Default::default(),
        stayed: Arc::default(),
        private: Default::default(),
    };
    let report = run(root, &plan)?;
    assert_eq!(refusals(&report), [""; 0]);
    for file in &plan.files {
        let path = root.join(crate::fsutil::os_str(&file.path));
        assert_eq!(std::fs::read_to_string(&path)?, file.blob);
        assert_eq!(
            std::fs::metadata(&path)?.permissions().mode() & 0o111 != 0,
            file.exec
        );
    }
    for (stat, file) in report.files.iter().zip(&plan.files) {
        let now = fingerprint(root, std::str::from_utf8(&file.path)?)?;
        assert_eq!(stat.ok_or("written")?.stat.fingerprint(), now);
    }
    assert_eq!(std::fs::read_link(root.join("link"))?, Path::new("b"));
    assert_eq!(
        std::fs::read_link(root.join("new/link"))?,
        Path::new("/etc/passwd")
    );
    let now = fingerprint(root, "link")?;
    assert_eq!(report.symlinks[0].ok_or("made")?.stat.fingerprint(), now);
    let names: Vec<_> = std::fs::read_dir(root)?.collect();
    assert_eq!(names.len(), 5);
    Ok(())
}

#[test]
fn what_the_plan_does_not_know_is_kept() -> Result {
    let temp = tempfile::tempdir()?;
    let root = temp.path();
    std::fs::create_dir_all(root.join("full"))?;
    for name in ["full/mine", "changed", "gone", "there", "dir-wanted"] {
        std::fs::write(root.join(name), "mine")?;
    }
    let stale = Fingerprint(1);
    let plan = Plan {
        remove: vec![Removal {
            path: b"changed".to_vec(),
            expected: stale,
        }],
        remove_dirs: vec![b"full".to_vec()],
        make_dirs: vec![b"dir-wanted".to_vec(), b"dir-wanted/sub".to_vec()],
        files: vec![
            NewFile {
                replaces: Some(stale),
                ..file("changed", "x")
            },
            file("there", "x"),
            file("written", "x"),
            file("dir-wanted/f", "x"),
            file("full/other", "x"),
        ],
        symlinks: vec![link("there", "x")],
        ..Plan::default()
    };
    let report = run(root, &plan)?;
    let refused = refusals(&report);
    for (got, want) in refused.iter().zip([
        "changed: it has changed in the meantime",
        "full: the directory is not empty",
        "dir-wanted: another file is in the way",
        "dir-wanted/sub: cannot open directory",
        "changed: it has changed in the meantime",
        "there: another file is in the way",
        "dir-wanted/f: cannot open directory",
        "there: another file is in the way",
    ]) {
        assert!(got.starts_with(want), "{got} is not {want}");
    }
    assert_eq!(refused.len(), 8);
    for name in ["full/mine", "changed", "there", "dir-wanted"] {
        assert_eq!(std::fs::read_to_string(root.join(name))?, "mine");
    }
    assert_eq!(std::fs::read_to_string(root.join("full/other"))?, "x");
    assert_eq!(std::fs::read_dir(root)?.count(), 6);
    Ok(())
}

#[test]
fn nothing_is_written_through_a_symlink() -> Result {
    let temp = tempfile::tempdir()?;
    let (root, outside) = (temp.path().join("in"), temp.path().join("out"));
    std::fs::create_dir(&root)?;
    std::fs::create_dir_all(outside.join("sub"))?;
    std::fs::write(outside.join("victim"), "safe")?;
    symlink("../out", root.join("d"))?;
    symlink("../out/victim", root.join("f"))?;
    let plan = Plan {
        remove: vec![Removal {
            path: b"d/victim".to_vec(),
            expected: fingerprint(&outside, "victim")?,
        }],
        remove_dirs: vec![b"d/sub".to_vec()],
        make_dirs: vec![b"d".to_vec(), b"d/new".to_vec()],
        files: vec![
            file("d/victim", "evil"),
            file("d/x", "evil"),
            file("f", "evil"),
        ],
        symlinks: vec![link("d/l", "evil")],
        ..Plan::default()
    };
    assert_eq!(run(&root, &plan)?.refused.len(), 8);
    assert_eq!(std::fs::read_to_string(outside.join("victim"))?, "safe");
    assert_eq!(std::fs::read_dir(&outside)?.count(), 2);
    Ok(())
}

#[test]
fn names_that_lead_elsewhere_are_refused() -> Result {
    let temp = tempfile::tempdir()?;
    let bad = [
        "",
        "..",
        "../x",
        "a/../../x",
        "/x",
        "x/",
        ".dmv/x",
        ".GIT",
        "a//b",
    ];
    let plan = Plan {
        files: bad.iter().map(|path| file(path, "x")).collect(),
        ..Plan::default()
    };
    assert_eq!(run(temp.path(), &plan)?.refused.len(), bad.len());
    assert_eq!(std::fs::read_dir(temp.path())?.count(), 0);
    Ok(())
}

#[test]
fn missing_content_leaves_no_file() -> Result {
    let temp = tempfile::tempdir()?;
    let plan = Plan {
        make_dirs: vec![b"d".to_vec()],
        files: vec![file("a", "half!"), file("b", "x"), file("d/a", "half!")],
        ..Plan::default()
    };
    let report = run(temp.path(), &plan)?;
    assert_eq!(
        refusals(&report),
        ["a: not stored here", "d/a: not stored here"]
    );
    assert!(report.files[1].is_some());
    assert_eq!(std::fs::read_dir(temp.path())?.count(), 2);
    assert_eq!(std::fs::read_dir(temp.path().join("d"))?.count(), 0);
    Ok(())
}

#[test]
fn many_files_report_in_the_order_of_the_plan() -> Result {
    let temp = tempfile::tempdir()?;
    let mut plan = Plan::default();
    for dir in 0..3 {
        plan.make_dirs.push(format!("d{dir}").into_bytes());
        for i in 0..BATCH + 10 {
            plan.files.push(file(&format!("d{dir}/f{i:05}"), "x"));
        }
    }
    let report = run(temp.path(), &plan)?;
    assert_eq!(report.files.len(), plan.files.len());
    for (file, stat) in plan.files.iter().zip(&report.files).step_by(97) {
        let now = fingerprint(temp.path(), std::str::from_utf8(&file.path)?)?;
        assert_eq!(stat.ok_or("written")?.stat.fingerprint(), now);
    }
    let root = SafeDir::open_root(temp.path())?;
    let cancelled = apply_plan(
        &root,
        &plan,
        &Literal,
        0,
        &AtomicBool::new(true),
        &ReplacedEntries::new(&root),
    );
    assert!(matches!(cancelled, Err(CheckoutError::Cancelled)));
    Ok(())
}

#[test]
fn files_that_exchange_their_names_with_directories_arrive_after_all_have_left() -> Result {
    let temp = tempfile::tempdir()?;
    let root = temp.path();
    // `a` goes into a directory of its name, the file of `b` takes the name of its directory.
    std::fs::create_dir(root.join("b"))?;
    std::fs::write(root.join("a"), "one")?;
    std::fs::write(root.join("b/x"), "two")?;
    std::fs::write(root.join("edited"), "three")?;
    let one = |from: &str, to: &str| -> Result<Move> {
        let expected = fingerprint(root, from)?;
        let (from, to) = (from.into(), to.into());
        Ok(Move { from, to, expected })
    };
    let moves = vec![one("a", "a/y")?, one("b/x", "b")?, one("edited", "c")?];
    std::fs::write(root.join("edited"), "by somebody else")?;
    let safe = SafeDir::open_root(root)?;
    let (cancel, replaced) = (AtomicBool::new(false), ReplacedEntries::new(&safe));
    let Departure { moving, stay } = leave(&safe, moves, &cancel, &|| {}, &replaced)?;
    let stay: Vec<_> = stay.iter().map(|one| &one.from[..]).collect();
    assert_eq!(stay, [b"edited"]);
    std::fs::remove_dir(root.join("b"))?;
    std::fs::create_dir(root.join("a"))?;
    let placed = arrive(&safe, moving, &cancel, &replaced)?;
    assert!(
        placed
            .iter()
            .all(|placed| placed.is_some_and(|p| !p.touched))
    );
    assert_eq!(std::fs::read_to_string(root.join("a/y"))?, "one");
    assert_eq!(std::fs::read_to_string(root.join("b"))?, "two");
    assert_eq!(
        std::fs::read_to_string(root.join("edited"))?,
        "by somebody else"
    );
    // A name that is not free: the file goes, unless somebody has written to it on its way.
    let moves = vec![one("b", "edited")?, one("a/y", "edited")?];
    let Departure { moving, .. } = leave(&safe, moves, &cancel, &|| {}, &replaced)?;
    let on_its_way = root.join(std::ffi::OsStr::new(str::from_utf8(&moving[1].temp)?));
    std::fs::write(on_its_way, "a late edit")?;
    let placed = arrive(&safe, moving, &cancel, &replaced)?;
    assert!(placed.iter().all(Option::is_none));
    assert_eq!(replaced.finish().len(), 1);
    assert_eq!(std::fs::read_to_string(root.join("a/y"))?, "a late edit");
    assert!(!root.join("b").exists());
    Ok(())
}

#[test]
fn a_directory_in_use_stays() -> Result {
    let temp = tempfile::tempdir()?;
    std::fs::create_dir_all(temp.path().join("d/e"))?;
    let in_use = SafeDir::open_root(&temp.path().join("d/e"))?.stat_self()?;
    let plan = Plan {
        remove_dirs: vec![b"d".to_vec(), b"d/e".to_vec()],
        in_use: [in_use.inode()].into(),
        ..Plan::default()
    };
    let report = run(temp.path(), &plan)?;
    assert!(temp.path().join("d/e").is_dir());
    assert_eq!(report.refused.len(), 2, "{:?}", refusals(&report));
    assert!(matches!(report.refused[0].why, Refusal::InUse));
    Ok(())
}
