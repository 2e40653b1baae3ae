use super::*;
use crate::worktree::scan::EmptyBase;
use std::collections::BTreeMap;

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Returns the rules of the directory `path` on disk.
fn enter(
    rules: &IgnoreRules,
    root: &SafeDir,
    path: &[u8],
    faults: &mut Vec<IgnoreFault>,
) -> Result<IgnoreRules> {
    let dir = root.open_dir(path)?;
    let files = RuleFiles {
        dir: Some(&dir),
        is_listed: &|name| dir.stat(name).is_ok(),
        known: &EmptyBase,
        subset: &Subset::everything(),
        instead: None,
    };
    Ok(rules.enter(path, &files, faults))
}

#[test]
fn deeper_files_and_later_lines_win() -> Result {
    let temp = tempfile::tempdir()?;
    std::fs::create_dir(temp.path().join("sub"))?;
    std::fs::write(temp.path().join("global"), "*.g\n")?;
    std::fs::write(temp.path().join(".gitignore"), "*.tmp\n*.o\n")?;
    std::fs::write(temp.path().join(".dmvignore"), "!keep.tmp\n/top\nbuild/\n")?;
    std::fs::write(temp.path().join("sub/.dmvignore"), "!*.o\n/own\n")?;
    let dir = SafeDir::open_root(temp.path())?;
    let mut faults = Vec::new();
    let above = IgnoreRules::new(Some(&temp.path().join("global")), true);
    let root = enter(&above, &dir, b"", &mut faults)?;
    let sub = enter(&root, &dir, b"sub", &mut faults)?;
    for (path, is_dir, want) in [
        ("a.tmp", false, Verdict::Ignored),
        ("keep.tmp", false, Verdict::Wanted),
        ("top", false, Verdict::Ignored),
        ("build", true, Verdict::Ignored),
        ("build", false, Verdict::Wanted),
        ("x.g", false, Verdict::Ignored),
    ] {
        assert_eq!(root.verdict(path.as_bytes(), is_dir), want, "{path}");
    }
    for (path, want) in [
        ("sub/a.tmp", Verdict::Ignored),
        ("sub/a.o", Verdict::Wanted),
        ("sub/top", Verdict::Wanted),
        ("sub/own", Verdict::Ignored),
        ("sub/x.g", Verdict::Ignored),
    ] {
        assert_eq!(sub.verdict(path.as_bytes(), false), want, "{path}");
    }
    assert!(above.faults().is_empty() && faults.is_empty());
    Ok(())
}

#[test]
fn lines_that_match_nothing_are_faults_and_the_others_hold() -> Result {
    let temp = tempfile::tempdir()?;
    let text = b"a[b\n\xff\n\n# comment\nc\\\n*.tmp\r\n";
    std::fs::write(temp.path().join(".dmvignore"), text)?;
    let dir = SafeDir::open_root(temp.path())?;
    let mut faults = Vec::new();
    let rules = enter(&IgnoreRules::default(), &dir, b"", &mut faults)?;
    assert_eq!(rules.verdict(b"x.tmp", false), Verdict::Ignored);
    assert_eq!(rules.verdict(b"\xff", false), Verdict::Ignored);
    assert_eq!(rules.verdict(b"x", false), Verdict::Wanted);
    let lines: Vec<_> = faults.iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [Some(1), Some(5)]);
    let said = faults[0].to_string();
    assert!(said.starts_with("line 1 has no effect: "), "{said}");
    Ok(())
}

#[test]
fn below_rules_that_nobody_can_tell_nothing_is_wanted() -> Result {
    let big = vec![b'\n'; MAX_IGNORE_BYTES as usize + 1];
    let texts: [&[u8]; 5] = [
        &big,
        b"\xff\xfe*\0.\0t\0",
        b"\xfe\xff\0*",
        b"*.tmp\n\0\n",
        b"*.tmp\rsecret\r",
    ];
    for text in texts {
        let temp = tempfile::tempdir()?;
        std::fs::create_dir_all(temp.path().join("sub/deep"))?;
        std::fs::write(temp.path().join("sub/.dmvignore"), text)?;
        std::fs::write(temp.path().join("sub/deep/.dmvignore"), "*.o\n!x\n")?;
        let root = SafeDir::open_root(temp.path())?;
        let mut faults = Vec::new();
        let above = enter(&IgnoreRules::default(), &root, b"", &mut faults)?;
        let sub = enter(&above, &root, b"sub", &mut faults)?;
        let deep = enter(&sub, &root, b"sub/deep", &mut faults)?;
        assert_eq!(above.verdict(b"x", false), Verdict::Wanted);
        assert_eq!(sub.verdict(b"sub/x", false), Verdict::Unknown);
        // A deeper rule that ignores is certain, and one that includes is not.
        assert_eq!(deep.verdict(b"sub/deep/a.o", false), Verdict::Ignored);
        assert_eq!(deep.verdict(b"sub/deep/x", false), Verdict::Unknown);
        assert_eq!(faults.len(), 1);
        assert_eq!(
            (faults[0].line, faults[0].path.as_bytes()),
            (None, &b"sub/.dmvignore"[..])
        );
    }
    Ok(())
}

#[cfg(unix)]
#[test]
fn an_ignore_file_of_another_kind_is_a_fault() -> Result {
    type Put = fn(&Path) -> io::Result<()>;
    let kinds: [Put; 4] = [
        |path| std::fs::create_dir(path),
        |path| std::os::unix::fs::symlink("real", path),
        |path| std::os::unix::fs::symlink("nowhere", path),
        |path| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            Ok(rustix::fs::mkfifoat(rustix::fs::CWD, path, mode)?)
        },
    ];
    for put in kinds {
        let temp = tempfile::tempdir()?;
        std::fs::write(temp.path().join("real"), "*\n")?;
        put(&temp.path().join(".dmvignore"))?;
        put(&temp.path().join("global"))?;
        let dir = SafeDir::open_root(temp.path())?;
        let mut faults = Vec::new();
        let rules = enter(&IgnoreRules::default(), &dir, b"", &mut faults)?;
        assert_eq!(rules.verdict(b"x", false), Verdict::Unknown);
        assert_eq!(faults.len(), 1);
        let above = IgnoreRules::new(Some(&temp.path().join("global")), false);
        // A link to the user's file is followed, as Git does.
        let is_link = temp.path().join("global").is_file();
        let want = if is_link {
            Verdict::Ignored
        } else {
            Verdict::Unknown
        };
        assert_eq!(above.verdict(b"x", false), want);
        assert_eq!(above.faults().len(), usize::from(!is_link));
    }
    let none = IgnoreRules::new(Some(Path::new("/nowhere/at all")), false);
    assert!(none.is_empty() && none.faults().is_empty());
    Ok(())
}

/// Files of a commit.
struct Files(BTreeMap<&'static str, std::result::Result<&'static str, &'static str>>);

impl BaseEntries for Files {
    fn section(
        &self,
        _dir: &[u8],
    ) -> std::result::Result<
        Option<crate::worktree::statcache::Section>,
        Box<dyn std::error::Error + Send + Sync>,
    > {
        Ok(None)
    }

    fn file(&self, path: &[u8], _most: u64) -> std::result::Result<Option<Vec<u8>>, String> {
        let found = std::str::from_utf8(path)
            .ok()
            .and_then(|path| self.0.get(path));
        let found = found.copied().transpose().map_err(str::to_owned)?;
        Ok(found.map(|text| text.as_bytes().to_vec()))
    }
}

#[test]
fn rules_outside_of_the_subset_come_from_the_commit() -> Result {
    let temp = tempfile::tempdir()?;
    let subset = Subset::new([&b"shots/a"[..]])?;
    let known = Files(BTreeMap::from([
        (".dmvignore", Ok("*.log\n")),
        ("shots/.dmvignore", Err("it is absent")),
        ("shots/a/.dmvignore", Ok("*\n")),
    ]));
    let dir = SafeDir::open_root(temp.path())?;
    let files = RuleFiles {
        dir: Some(&dir),
        is_listed: &|_| false,
        known: &known,
        subset: &subset,
        instead: None,
    };
    let mut faults = Vec::new();
    let root = IgnoreRules::default().enter(b"", &files, &mut faults);
    assert_eq!(root.verdict(b"x.log", false), Verdict::Ignored);
    assert_eq!(root.verdict(b"x", false), Verdict::Wanted);
    let shots = root.enter(b"shots", &files, &mut faults);
    assert_eq!(shots.verdict(b"shots/x", false), Verdict::Unknown);
    // Inside of the subset, a file that is not on disk has been deleted.
    let inside = root.enter(b"shots/a", &files, &mut faults);
    assert_eq!(inside.verdict(b"shots/a/x", false), Verdict::Wanted);
    assert_eq!(faults.len(), 1);
    Ok(())
}
