//! `dmv import git --lfs` and `dmv export --git --lfs`. Needs Git, and some tests need Git LFS.

#![cfg(feature = "git")]

use crate::from_git::{git, source};
use crate::place::files::read;
use crate::place::{Outcome, Place};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// `printf content | sha256sum`
const SHA256: &str = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73";

/// The path of this content in a store of Git LFS.
fn stored(lfs: &str) -> String {
    format!("{lfs}/objects/{}/{}/{SHA256}", &SHA256[..2], &SHA256[2..4])
}

/// Commits a pointer to this content in `source`, whose store has it.
fn commit_pointer(place: &Place, path: &str) -> Outcome {
    place.write(stored("source/.git/lfs"), "content")?;
    let pointer =
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{SHA256}\nsize 7\n");
    place.write(format!("source/{path}"), pointer)?;
    git(place, "source", &["add", "-A"])?;
    git(place, "source", &["commit", "-q", "-m", "large"])?;
    Ok(())
}

#[test]
fn content_of_git_lfs_comes_in_and_goes_back_as_a_pointer() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    commit_pointer(&place, "film.mov")?;
    let said = |args: &[&str], code: i32| -> Outcome<String> {
        let done = place.run(args)?;
        assert_eq!(done.status.code(), Some(code), "{args:?}");
        Ok(String::from_utf8(done.stderr)?)
    };
    // Nobody chooses pointers without knowing it.
    let planned = said(&["import", "git", "source", "--dry-run"], 0)?;
    assert!(
        planned.contains("is a pointer of Git LFS, and 7 B of content would not be taken"),
        "{planned}"
    );
    let pointers = said(&["import", "git", "source", "pointers"], 0)?;
    assert!(
        pointers.contains(
            "1 version of a file is a pointer of Git LFS, and 7 B of content is not taken"
        ),
        "{pointers}"
    );
    let content = said(&["import", "git", "source", "film", "--lfs", "here"], 0)?;
    assert!(!content.contains("pointer"), "{content}");
    assert_eq!(read(&place, "film/film.mov")?, "content");
    let without = ["-C", "film", "export", "--git", "../content.git"];
    assert!(said(&without, 3)?.contains("with --lfs it becomes pointers again"));
    place.ok(&["-C", "film", "export", "--git", "../back.git", "--lfs"])?;
    assert_eq!(
        git(&place, "back.git", &["rev-parse", "main"])?,
        git(&place, "source", &["rev-parse", "main"])?
    );
    let kept = stored("back.git/lfs");
    assert_eq!(read(&place, &kept)?, "content");
    // Others may read it as they may read the rest of the repository.
    let mode = |path: &str| -> Outcome<u32> {
        Ok(fs::metadata(place.work().join(path))?.permissions().mode() & 0o777)
    };
    assert_eq!(mode(&kept)?, mode("back.git/HEAD")?);
    Ok(())
}

/// An export to another repository may give commits other ids. What comes later goes on from these.
#[test]
fn a_repository_with_other_ids_is_gone_on_with() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    commit_pointer(&place, "d/film.mov")?;
    place.ok(&["import", "git", "source", "film", "--lfs", "here"])?;
    let out = ["-C", "film", "export", "--git", "../content.git"];
    assert_eq!(place.run(&out)?.status.code(), Some(3));
    // On top, and beside it.
    place.write("film/mine", "m")?;
    place.ok(&["-C", "film", "commit", "-m", "mine"])?;
    place.ok(&out)?;
    place.ok(&["-C", "film", "checkout", "-b", "beside", "main~1"])?;
    place.write("film/yours", "y")?;
    place.ok(&["-C", "film", "commit", "-m", "yours"])?;
    place.ok(&out)?;
    git(&place, "content.git", &["fsck", "--strict", "--full"])?;
    assert_eq!(
        git(&place, "content.git", &["show", "main:d/film.mov"])?,
        "content"
    );
    let before = place.ok(&["-C", "film", "log", "--oneline", "main"])?;
    // It comes back as itself.
    place.ok(&[
        "-C",
        "film",
        "import",
        "git",
        "../content.git",
        "--name",
        "content",
    ])?;
    let after = place.ok(&["-C", "film", "log", "--oneline", "content/main"])?;
    assert_eq!(after.lines().count(), before.lines().count(), "{after}");
    // A commit of somebody on top of one's own keeps its id only as long as that one does.
    git(&place, "", &["clone", "-q", "content.git", "theirs"])?;
    place.write("theirs/t", "t")?;
    git(&place, "theirs", &["add", "t"])?;
    git(&place, "theirs", &["commit", "-q", "-m", "theirs"])?;
    git(&place, "theirs", &["push", "-q", "origin", "main"])?;
    place.ok(&["-C", "film", "import", "git", "../content.git"])?;
    place.ok(&["-C", "film", "checkout", "main"])?;
    place.ok(&["-C", "film", "merge", "git/main"])?;
    let other = place.run(&["-C", "film", "export", "--git", "../other.git", "--lfs"])?;
    let said = String::from_utf8(other.stderr)?;
    assert!(
        said.contains("1 commit has another id") && said.contains("a commit of yours before it"),
        "{said}"
    );
    Ok(())
}

#[test]
fn files_become_pointers_of_git_lfs() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    place.ok(&["import", "git", "source", "film"])?;
    place.write("film/d/a.psd", "content")?;
    place.write("film/d/b large.bin", "x".repeat(3000))?;
    place.write("film/small.bin", "small")?;
    place.write("film/.gitattributes", "*.mov filter=lfs")?;
    place.write("film/a.mov", "picture")?;
    place.ok(&["-C", "film", "commit", "-m", "large"])?;
    let export = [
        "-C",
        "film",
        "export",
        "--git",
        "../out.git",
        "--lfs",
        "*.psd, >2k",
    ];
    place.ok(&export)?;
    let show = |what: &str| git(&place, "out.git", &["show", what]);
    let is_pointer = |what: &str| -> Outcome<bool> {
        Ok(show(what)?.starts_with("version https://git-lfs.github.com/spec/v1\noid sha256:"))
    };
    for path in ["d/a.psd", "d/b large.bin", "a.mov"] {
        assert!(is_pointer(&format!("main:{path}"))?, "{path}");
    }
    assert_eq!(show("main:small.bin")?, "small");
    assert_eq!(
        show("main:.gitattributes")?,
        "*.mov filter=lfs\n*.psd filter=lfs diff=lfs merge=lfs -text\n\
         /d/b[[:space:]]large.bin filter=lfs diff=lfs merge=lfs -text"
    );
    let kept = stored("out.git/lfs");
    assert_eq!(read(&place, &kept)?, "content");
    // Commits that came from Git are what they were.
    let imported = git(&place, "source", &["rev-parse", "main"])?;
    assert_eq!(git(&place, "out.git", &["rev-parse", "main~1"])?, imported);
    git(&place, "out.git", &["fsck", "--strict"])?;
    // Another version, and more of the same.
    place.write("film/d/a.psd", "another")?;
    place.ok(&["-C", "film", "commit", "-m", "another"])?;
    place.ok(&export)?;
    assert!(is_pointer("main:d/a.psd")? && show("main:d/a.psd")? != show("main~1:d/a.psd")?);
    git(&place, "out.git", &["fsck", "--strict"])?;
    let again = place.ok(&export)?;
    assert!(again.starts_with("0 commits exported"), "{again}");
    // Somebody goes on in Git. In DMV all files keep their content, and no commit is doubled.
    git(&place, ".", &["clone", "-q", "out.git", "other"])?;
    place.write("other/theirs", "t")?;
    git(&place, "other", &["add", "theirs"])?;
    git(&place, "other", &["commit", "-q", "-m", "theirs"])?;
    git(&place, "other", &["push", "-q", "origin", "main"])?;
    place.ok(&["-C", "film", "import", "git", "../out.git"])?;
    place.ok(&["-C", "film", "merge", "--ff-only", "git/main"])?;
    assert_eq!(read(&place, "film/d/a.psd")?, "another");
    let log = place.ok(&["-C", "film", "log", "--oneline"])?;
    assert_eq!(log.lines().count(), 7, "{log}");
    let tip = git(&place, "out.git", &["rev-parse", "main"])?;
    place.ok(&[
        "-C",
        "film",
        "export",
        "--git",
        "../whole.git",
        "--lfs",
        "*.psd,>2k",
    ])?;
    assert_eq!(git(&place, "whole.git", &["rev-parse", "main"])?, tip);
    git(&place, "whole.git", &["fsck", "--strict"])?;
    // A stream has no place for content.
    place.fails(2, &["-C", "film", "export", "--stream", "../x.fi", "--lfs"])?;
    place.ok(&[
        "-C",
        "film",
        "export",
        "--stream",
        "../x.fi",
        "--lfs",
        "*.psd,>2k",
        "--lfs-dir",
        "../x.lfs",
    ])?;
    assert!(read(&place, "x.fi")?.contains(&format!("oid sha256:{SHA256}")));
    assert_eq!(read(&place, &stored("x.lfs"))?, "content");
    for wrong in [">x", "[", ">"] {
        place.fails(
            2,
            &["-C", "film", "export", "--git", "../x.git", "--lfs", wrong],
        )?;
    }
    assert!(!place.work().join("x.git").exists());
    Ok(())
}

/// A clone has no map of ids. It knows a commit by its line in Git, although Git cannot have all of it.
#[test]
fn a_clone_knows_commits_that_another_one_exported() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    place.ok(&["init", "film"])?;
    place.write("film/d/a.psd", "content")?;
    place.write("film/d/e/b.psd", "large")?;
    place.write("film/secret", "private")?;
    fs::set_permissions(
        place.work().join("film/secret"),
        fs::Permissions::from_mode(0o600),
    )?;
    fs::create_dir_all(place.work().join("film/empty/below"))?;
    place.ok(&["-C", "film", "commit", "-m", "one"])?;
    place.write("film/d/a.psd", "another")?;
    place.ok(&["-C", "film", "commit", "-m", "two"])?;
    place.ok(&[
        "-C",
        "film",
        "export",
        "--git",
        "../out.git",
        "--lfs",
        "*.psd",
    ])?;
    let tip = |repo: &str, name: &str| place.json(&["-C", repo, "show", "--json", name]);
    for (n, lfs) in ["here", "no"].into_iter().enumerate() {
        let clone = format!("clone{n}");
        place.ok(&["clone", "film", &clone])?;
        let said = place.ok(&["-C", &clone, "import", "git", "../out.git", "--lfs", lfs])?;
        assert!(
            said.contains("2 of them are commits that dmv had exported"),
            "{said}"
        );
        assert_eq!(tip(&clone, "git/main")?["id"], tip(&clone, "main")?["id"]);
    }
    // A commit that only says so is another one.
    git(&place, ".", &["clone", "-q", "out.git", "forged"])?;
    place.write("forged/d/e/b.psd", "forged")?;
    git(&place, "forged", &["add", "-A"])?;
    let text = git(&place, "forged", &["cat-file", "commit", "HEAD"])?;
    let tree = git(&place, "forged", &["write-tree"])?;
    let (_, rest) = text.split_once('\n').ok_or("a line")?;
    place.write("forged/commit", format!("tree {tree}\n{rest}\n"))?;
    let put = ["hash-object", "-w", "-t", "commit", "commit"];
    let forged = git(&place, "forged", &put)?;
    git(
        &place,
        "forged",
        &["update-ref", "refs/heads/main", &forged],
    )?;
    place.ok(&["clone", "film", "last"])?;
    place.ok(&["-C", "last", "import", "git", "../forged"])?;
    assert_ne!(tip("last", "git/main")?["id"], tip("last", "main")?["id"]);
    Ok(())
}

/// What Git LFS itself makes of an export.
#[test]
fn git_lfs_checks_out_what_was_exported_as_pointers() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    if !has_git_lfs() {
        dmv_random::skip("git lfs is not installed");
        return Ok(());
    }
    place.ok(&["import", "git", "source", "film"])?;
    place.write("film/d/a b.psd", "content")?;
    place.write("film/[x] y.bin", "x".repeat(3000))?;
    place.ok(&["-C", "film", "commit", "-m", "large"])?;
    place.ok(&[
        "-C",
        "film",
        "export",
        "--git",
        "../out.git",
        "--lfs",
        "*.psd,>2k",
    ])?;
    git(&place, "out.git", &["lfs", "fsck", "main~1..main"])?;
    git(&place, ".", &["lfs", "install"])?;
    git(&place, ".", &["clone", "-q", "out.git", "other"])?;
    assert_eq!(read(&place, "other/d/a b.psd")?, "content");
    assert_eq!(read(&place, "other/[x] y.bin")?, "x".repeat(3000));
    assert_eq!(git(&place, "other", &["status", "--porcelain"])?, "");
    let files = git(&place, "other", &["lfs", "ls-files", "-n"])?;
    assert_eq!(files, "[x] y.bin\nd/a b.psd");
    Ok(())
}

fn has_git_lfs() -> bool {
    let lfs = Command::new("git").args(["lfs", "version"]).output();
    lfs.is_ok_and(|output| output.status.success())
}

#[test]
fn git_lfs_fetches_what_is_missing_and_runs_no_program_of_the_source() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    if !has_git_lfs() {
        dmv_random::skip("git lfs is not installed");
        return Ok(());
    }
    git(&place, "source", &["lfs", "install", "--local"])?;
    git(&place, "source", &["lfs", "track", "*.mov"])?;
    place.write("source/film.mov", "content")?;
    git(&place, "source", &["add", "-A"])?;
    git(&place, "source", &["commit", "-q", "-m", "large"])?;
    git(&place, ".", &["init", "-q", "--bare", "hub.git"])?;
    git(&place, "source", &["remote", "add", "origin", "../hub.git"])?;
    git(&place, "source", &["push", "-q", "origin", "main"])?;
    fs::remove_dir_all(place.work().join("source/.git/lfs/objects"))?;
    let trap = place.work().join("trapped");
    for key in [
        "core.sshCommand",
        "credential.helper",
        "lfs.customtransfer.x.path",
    ] {
        git(
            &place,
            "source",
            &["config", key, &format!("touch {}", trap.display())],
        )?;
    }
    git(
        &place,
        "source",
        &["config", "lfs.standalonetransferagent", "x"],
    )?;
    place.ok(&["import", "git", "source", "film", "--lfs", "fetch"])?;
    assert_eq!(read(&place, "film/film.mov")?, "content");
    assert!(!trap.exists());
    Ok(())
}
