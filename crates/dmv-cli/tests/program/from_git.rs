//! `dmv import git` and `dmv export --git` as a user runs them. Needs Git; `crates/dmv-git/tests` shows that every
//! id comes back.

#![cfg(feature = "git")]

use crate::bucket::gateway::Gateway;
use crate::place::files::read;
use crate::place::several::{SSH, speak_ssh};
use crate::place::{Outcome, Place};
use std::fs;
use std::process::Command;

/// Runs Git in a directory of the place, with a user and without settings of the machine.
pub fn git(place: &Place, dir: &str, args: &[&str]) -> Outcome<String> {
    let mut git = Command::new("git");
    git.current_dir(place.work().join(dir)).args(args);
    git.env("HOME", place.home())
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for who in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{who}_NAME"), "Ada");
        git.env(format!("GIT_{who}_EMAIL"), "ada@example.org");
    }
    let output = git.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {said}");
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

/// A place with the Git repository `source`, which has two branches, a tag and a merge; `None` without Git.
pub fn source() -> Outcome<Option<Place>> {
    if Command::new("git").arg("--version").output().is_err() {
        dmv_random::skip("git is not installed");
        return Ok(None);
    }
    let place = Place::new()?;
    fs::create_dir(place.work().join("source"))?;
    git(&place, "source", &["init", "-q", "-b", "main"])?;
    let commit = |path: &str, text: &str| -> Outcome {
        place.write(format!("source/{path}"), text)?;
        git(&place, "source", &["add", "-A"])?;
        git(&place, "source", &["commit", "-q", "-m", path]).map(drop)
    };
    commit("a.txt", "one\n")?;
    git(&place, "source", &["checkout", "-q", "-b", "side"])?;
    commit("d/b.txt", "two\n")?;
    git(&place, "source", &["checkout", "-q", "main"])?;
    commit(".gitignore", "*.o\n")?;
    git(&place, "source", &["merge", "-q", "--no-edit", "side"])?;
    git(&place, "source", &["tag", "-a", "v1", "-m", "first"])?;
    Ok(Some(place))
}

pub fn refs(place: &Place, dir: &str) -> Outcome<String> {
    let format = "--format=%(objectname) %(refname)";
    git(place, dir, &["for-each-ref", format])
}

#[test]
fn a_history_comes_in_and_goes_back_with_its_ids() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    let said = place.fails(10, &["clone", "source"])?;
    assert!(
        said.contains("hint: it is a repository of Git: dmv import git "),
        "{said}"
    );
    let said = place.ok(&["import", "git", "source", "film"])?;
    assert!(said.starts_with("4 commits taken from source"), "{said}");
    assert_eq!(read(&place, "film/d/b.txt")?, "two\n");
    place.ok(&["-C", "film", "status", "--exit-code"])?;
    assert!(place.work().join("film/.dmv/changed-paths").is_file());
    let subjects = place.ok(&["-C", "film", "log", "--oneline", "side"])?;
    assert_eq!(subjects.lines().count(), 2, "{subjects}");
    let again = place.ok(&["-C", "film", "import", "git", "../source"])?;
    assert_eq!(again, "nothing new in ../source\n");
    let clone = place.fails(10, &["clone", "git@host:x.git"])?;
    assert!(
        clone.contains("dmv import git git@host:x.git, if it"),
        "{clone}"
    );
    place.ok(&["-C", "film", "export", "--git", "../back.git"])?;
    assert_eq!(refs(&place, "back.git")?, refs(&place, "source")?);
    git(&place, "back.git", &["fsck", "--strict"])?;
    // Into a repository without commits, it is one operation.
    place.ok(&["init", "other"])?;
    place.ok(&["-C", "other", "import", "git", "../source"])?;
    place.ok(&["-C", "other", "undo"])?;
    assert!(!place.work().join("other/a.txt").exists());
    assert_eq!(place.ok(&["-C", "other", "tag"])?, "");
    place.ok(&["-C", "other", "redo"])?;
    assert_eq!(read(&place, "other/d/b.txt")?, "two\n");
    Ok(())
}

#[test]
fn a_tag_travels_whole() -> Outcome {
    let Some(mut place) = source()? else {
        return Ok(());
    };
    let tag = |args: &[&str]| git(&place, "source", &[&["tag"], args].concat());
    tag(&["-a", "-m", "of a tag\n\nmore", "v2", "v1"])?;
    tag(&["plain", "side"])?;
    place.ok(&["import", "--json", "git", "source", "whole"])?;
    place.ok(&["-C", "whole", "export", "--stream", "../all.stream"])?;
    // Git itself writes another tag of a tag into a stream.
    let again = place.run(&["-C", "whole", "import", "--stream", "../all.stream"])?;
    assert_eq!(again.status.code(), Some(3));
    let again = String::from_utf8([again.stdout, again.stderr].concat())?;
    let said = "no new commits in ../all.stream\n";
    assert!(
        again.starts_with(said) && again.contains("not moved: tag 'v2'"),
        "{again}"
    );
    let blob = git(&place, "source", &["rev-parse", "main:a.txt"])?;
    tag(&["-a", "-m", "of a blob", "content", &blob])?;
    tag(&["-a", "-m", "of a tag of a blob", "deep", "content"])?;
    place.fails(3, &["import", "git", "source", "film"])?;
    tag(&["-d", "content", "deep"])?;
    let main = place.json(&["-C", "film", "show", "--json", "main"])?;
    assert_eq!(
        place.json(&["-C", "film", "show", "--json", "v2"])?["id"],
        main["id"]
    );
    let tags = place.records(&["-C", "film", "tag", "--json"])?;
    assert_eq!(
        (&tags[2]["message"], &tags[2]["commit"]),
        (&"of a tag\n\nmore".into(), &main["id"])
    );
    assert!(tags[0].get("message").is_none(), "{tags:?}");
    let log = place.ok(&["-C", "film", "log", "--oneline", "-1"])?;
    assert!(log.contains("tag v1, tag v2)"), "{log}");
    // By path, over ssh and through a bucket, from clone to clone.
    speak_ssh(&mut place, SSH)?;
    let ssh = format!("ssh://host{}", place.work().join("one").display());
    place.ok(&["clone", "film", "one"])?;
    place.ok(&["clone", "--branch", "v1", &ssh, "two"])?;
    assert_eq!(
        place.json(&["-C", "two", "show", "--json"])?["id"],
        main["id"]
    );
    let mut clones = vec!["one", "two"];
    place.env.push(("AWS_ACCESS_KEY_ID", "AKIATESTKEY".into()));
    place.env.push(("AWS_SECRET_ACCESS_KEY", "a5ecret".into()));
    if let Some(gateway) = Gateway::start("AKIATESTKEY", "a5ecret")? {
        let at = [
            "remote",
            "add",
            "studio",
            "s3://film/x",
            "--endpoint",
            &gateway.endpoint,
        ];
        place.ok(&["init", "three"])?;
        for repo in ["two", "three"] {
            place.ok(&[&["-C", repo][..], &at].concat())?;
        }
        place.ok(&["-C", "two", "push", "studio", "v1", "v2", "plain"])?;
        place.ok(&["-C", "three", "fetch", "studio"])?;
        clones.push("three");
    }
    let wanted = git(&place, "source", &["show-ref", "--tags"])?;
    for clone in clones {
        let target = format!("{clone}.git");
        place.ok(&["-C", clone, "export", "--git", &format!("../{target}")])?;
        assert_eq!(
            git(&place, &target, &["show-ref", "--tags"])?,
            wanted,
            "{clone}"
        );
        git(&place, &target, &["fsck", "--strict"])?;
    }
    Ok(())
}

#[test]
fn two_work_on_both_sides() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    place.ok(&["import", "git", "source", "film"])?;
    place.ok(&["-C", "film", "export", "--git", "../hub.git"])?;
    // One works with DMV, the other with Git.
    place.write("film/mine", "m")?;
    place.ok(&["-C", "film", "commit", "-m", "mine"])?;
    git(&place, ".", &["clone", "-q", "hub.git", "other"])?;
    place.write("other/theirs", "t")?;
    git(&place, "other", &["add", "-A"])?;
    git(&place, "other", &["commit", "-q", "-m", "theirs"])?;
    git(&place, "other", &["push", "-q"])?;
    let refused = place.run(&["-C", "film", "export", "--git", "../hub.git"])?;
    assert_eq!(refused.status.code(), Some(3));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("not moved: refs/heads/main"), "{said}");
    place.ok(&["-C", "film", "import", "git", "../hub.git"])?;
    place.ok(&["-C", "film", "merge", "git/main"])?;
    let before = place.ok(&["-C", "film", "log", "--oneline"])?;
    place.ok(&["-C", "film", "export", "--git", "../hub.git"])?;
    // What went out comes back as itself, also in a repository that never saw it leave.
    place.ok(&["-C", "film", "import", "git", "../hub.git"])?;
    assert_eq!(
        place
            .ok(&["-C", "film", "log", "--oneline", "git/main"])?
            .lines()
            .count(),
        before.lines().count()
    );
    fs::remove_file(place.work().join("film/.dmv/git.db"))?;
    place.ok(&["-C", "film", "import", "git", "../hub.git"])?;
    let tip = |revision: &str| place.json(&["-C", "film", "show", "--json", revision]);
    assert_eq!(tip("git/main")?["id"], tip("main")?["id"]);
    Ok(())
}

#[test]
fn an_id_of_git_is_a_revision() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    let tip = git(&place, "source", &["rev-parse", "main"])?;
    place.ok(&["import", "git", "source", "film"])?;
    // A clone has no map of ids. The commits have them.
    place.ok(&["clone", "film", "second"])?;
    for repo in ["film", "second"] {
        let id = &place.json(&["-C", repo, "show", "--json", "main"])?["id"];
        for length in [4, 7, 40] {
            let revision = format!("git:{}", &tip[..length]);
            let shown = place.json(&["-C", repo, "show", "--json", &revision])?;
            assert_eq!(&shown["id"], id, "{revision}");
        }
        let short = format!("git:{}", tip[..7].to_uppercase());
        let path = format!("{short}^2:d/b.txt");
        assert_eq!(place.ok(&["-C", repo, "cat", &path])?, "two\n");
        let unknown = if tip.starts_with("0000") {
            "git:ffff"
        } else {
            "git:0000"
        };
        let said = place.fails(20, &["-C", repo, "show", unknown])?;
        assert!(
            said.contains(&format!("no branch, tag or commit '{unknown}'")),
            "{said}"
        );
        let log = place.ok(&["-C", repo, "log", "--git", "--oneline", "-1"])?;
        assert!(log.contains(&format!("git:{})", &tip[..12])), "{log}");
        let log = place.records(&["-C", repo, "log", "--git", "--json"])?;
        assert_eq!(log[0]["git"], tip);
    }
    // Another form of a commit has not its id.
    place.ok(&["-C", "second", "commit", "--amend", "-m", "amended"])?;
    place.ok(&["-C", "second", "export", "--git", "../amended.git"])?;
    let message = git(&place, "amended.git", &["log", "-1", "--format=%s", "main"])?;
    assert_eq!(message, "amended");
    let said = place.run(&["-C", "second", "show", "--json", &format!("git:{tip}")])?;
    assert_eq!(said.status.code(), Some(0));
    // An exported commit has an id in Git, too.
    place.write("film/mine", "m")?;
    place.ok(&["-C", "film", "commit", "-m", "mine"])?;
    let log = place.records(&["-C", "film", "log", "--git", "--json"])?;
    assert!(log[0].get("git").is_none());
    place.ok(&["-C", "film", "export", "--git", "../hub.git"])?;
    let log = place.records(&["-C", "film", "log", "--git", "--json"])?;
    assert_eq!(
        log[0]["git"],
        git(&place, "hub.git", &["rev-parse", "main"])?
    );
    Ok(())
}

#[test]
fn nothing_that_a_repository_names_is_run() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    let trap = place.work().join("trapped");
    let command = format!("touch {}", trap.display());
    for (key, value) in [
        ("core.fsmonitor", command.clone()),
        ("core.sshCommand", command.clone()),
        ("core.pager", command.clone()),
        ("alias.rev-list", format!("!{command}")),
        ("diff.external", command.clone()),
        ("filter.x.smudge", command.clone()),
        ("extensions.partialClone", "evil".to_owned()),
        ("remote.evil.promisor", "true".to_owned()),
        ("remote.evil.url", format!("ext::sh -c '{command}'")),
        ("protocol.ext.allow", "always".to_owned()),
    ] {
        git(&place, "source", &["config", key, &value])?;
    }
    // An object that has to be fetched.
    let blob = git(&place, "source", &["rev-parse", "HEAD:a.txt"])?;
    fs::remove_file(place.work().join(format!(
        "source/.git/objects/{}/{}",
        &blob[..2],
        &blob[2..]
    )))?;
    let said = place.fails(6, &["import", "git", "source", "film"])?;
    assert!(said.contains("fetch --refetch"), "{said}");
    assert!(!trap.exists());
    Ok(())
}

#[test]
fn what_cannot_be_taken_is_said() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    place.fails(10, &["import", "git", "nowhere", "film"])?;
    let source = format!("file://{}", place.work().join("source").display());
    let clone = |part: &[&str], name: &str| {
        git(
            &place,
            ".",
            &[&["clone", "-q", "--bare"], part, &[&source, name]].concat(),
        )
    };
    clone(&["--depth", "1"], "shallow")?;
    let said = place.fails(6, &["import", "git", "shallow", "film"])?;
    assert!(said.contains("fetch --unshallow"), "{said}");
    git(
        &place,
        "source",
        &["config", "uploadpack.allowFilter", "true"],
    )?;
    clone(&["--filter=blob:none"], "partial")?;
    let said = place.fails(6, &["import", "git", "partial", "film"])?;
    assert!(said.contains("fetch --refetch"), "{said}");
    fs::remove_dir_all(place.work().join("film"))?;
    // A name that DMV refuses, and content of Git LFS that is not there.
    place.write("source/.hg/store", "x")?;
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 7\n",
        "0".repeat(64)
    );
    place.write("source/film.mov", pointer)?;
    git(&place, "source", &["add", "-A"])?;
    git(&place, "source", &["commit", "-q", "-m", "odd"])?;
    let blob = git(&place, "source", &["rev-parse", "main:film.mov"])?;
    let done = place.run(&["import", "git", "source", "film", "--lfs", "here"])?;
    assert_eq!(done.status.code(), Some(3));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        said.contains("left out .hg")
            && said.contains("git -C source lfs fetch --all, then import"),
        "{said}"
    );
    let line = format!(
        "film.mov: the content of Git LFS is missing (7 B, blob {}",
        &blob[..10]
    );
    assert!(said.contains(&line), "{said}");
    let planned = place.json(&[
        "import",
        "git",
        "source",
        "told",
        "--lfs",
        "here",
        "--dry-run",
        "--json",
    ])?;
    assert_eq!(
        (&planned["commits"], &planned["files"]),
        (&5.into(), &5.into())
    );
    assert_eq!(planned["missing_lfs"][0]["bytes"], 7, "{planned}");
    assert_eq!(planned["refused"][0]["path"], ".hg", "{planned}");
    let told_later = [
        "missing_lfs",
        "left",
        "other_refs",
        "changed",
        "gone",
        "moved_tags",
    ];
    assert_eq!(planned["about_seconds"], 1, "{planned}");
    let said = place.run(&["import", "git", "source", "told", "--dry-run"])?;
    let said = String::from_utf8([said.stdout, said.stderr].concat())?;
    assert!(
        said.contains("; that takes about 1 s\n") && said.contains(": would leave out .hg: "),
        "{said}"
    );
    let told = place.run(&["import", "git", "source", "told", "--lfs", "here", "--json"])?;
    let told: serde_json::Value = serde_json::from_slice(&told.stdout)?;
    assert_eq!(told["commits"], 5, "{told}");
    // Three small files, the pointer, and what .hg has, which Git lists as any other.
    assert_eq!(told["files"], 5, "{told}");
    assert_eq!(told["missing_lfs"][0]["path"], "film.mov", "{told}");
    assert_eq!(told["refused"][0]["path"], ".hg", "{told}");
    // The dry run has said the same.
    for key in told_later {
        assert_eq!(told[key], planned[key], "{key}");
    }
    assert_eq!(ref_names(&told), ref_names(&planned));
    Ok(())
}

/// The refs that an import reports, and whether each was refused.
fn ref_names(told: &serde_json::Value) -> Vec<(String, bool)> {
    let refs = told["refs"].as_array().map_or(&[][..], Vec::as_slice);
    let name = |one: &serde_json::Value| {
        let name = one["ref"].as_str().unwrap_or_default();
        (name.to_owned(), one["refused"] == true)
    };
    refs.iter().map(name).collect()
}

#[test]
fn a_later_import_says_what_moved_and_is_undone() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    let git = |args: &[&str]| git(&place, "source", args);
    git(&["branch", "old", "side"])?;
    place.ok(&["import", "git", "source", "film"])?;
    let tip = |name: &str| place.json(&["-C", "film", "show", "--json", name]);
    let before = tip("git/main")?["id"].clone();
    place.write("source/new", "n")?;
    git(&["add", "-A"])?;
    git(&["commit", "-q", "-m", "new"])?;
    let import = ["-C", "film", "import", "git", "../source"];
    let done = place.run(&import)?;
    let said = String::from_utf8([done.stdout, done.stderr].concat())?;
    assert!(
        said.contains("  moved  git/main\n") && said.contains("on main: dmv merge git/main"),
        "{said}"
    );
    // It is taken back as any other command, and made again.
    let after = tip("git/main")?["id"].clone();
    let said = place.ok(&["-C", "film", "undo"])?;
    assert!(said.starts_with("undone: dmv -C film import git"), "{said}");
    assert_eq!(tip("git/main")?["id"], before);
    place.ok(&["-C", "film", "redo"])?;
    assert_eq!(tip("git/main")?["id"], after);
    let said = place.ok(&["-C", "film", "undo"])?;
    assert!(said.starts_with("undone: dmv -C film import git"), "{said}");
    place.ok(&["-C", "film", "redo"])?;
    // Rewritten and deleted branches, a new one, a moved tag.
    git(&["commit", "-q", "--amend", "-m", "again"])?;
    git(&["branch", "-D", "old"])?;
    git(&["branch", "fresh"])?;
    git(&["tag", "-f", "v1", "side"])?;
    let planned = place.json(&[&import[..], &["--dry-run", "--json"]].concat())?;
    let texts = |args: &[&str]| -> Outcome<String> {
        let done = place.run(args)?;
        Ok(String::from_utf8([done.stdout, done.stderr].concat())?)
    };
    let dry = texts(&[&import[..], &["--dry-run"]].concat())?;
    let done = place.run(&import)?;
    assert_eq!(done.status.code(), Some(3));
    let said = String::from_utf8([done.stdout, done.stderr].concat())?;
    let old = after.as_str().ok_or("an id")?[..12].to_owned();
    for line in [
        "  new    git/fresh, also as branch fresh\n".to_owned(),
        format!("  moved  git/main, rewritten; only the operation log has its old tip {old}\n"),
        format!("to name the old tip: dmv branch NAME {old}\n"),
        "  gone   git/old: the source no longer has it\n".to_owned(),
        "dmv import git ../source --prune\n".to_owned(),
        "not moved: tag 'v1', which names something else in the source; \
         to move it: dmv tag -d v1, then"
            .to_owned(),
    ] {
        assert!(said.contains(&line), "{line}: {said}");
        assert!(dry.contains(&line), "{line}: {dry}");
    }
    assert_eq!(planned["gone"][0], "remote/git/old", "{planned}");
    assert_eq!(planned["moved_tags"][0], "v1", "{planned}");
    let rewritten =
        |one: &serde_json::Value| one["ref"] == "remote/git/main" && one["rewritten"] == true;
    let refs = planned["refs"].as_array().ok_or("a list")?;
    assert!(refs.iter().any(rewritten), "{planned}");
    // What was told stays, until the user says otherwise.
    place.ok(&["-C", "film", "show", "git/old"])?;
    place.ok(&["-C", "film", "tag", "-d", "v1"])?;
    let said = place.ok(&[&import[..], &["--prune"]].concat())?;
    assert!(
        said.contains("git/old: the source no longer has it; with --prune it is forgotten"),
        "{said}"
    );
    place.fails(20, &["-C", "film", "show", "git/old"])?;
    assert_eq!(tip("v1")?["id"], tip("side")?["id"]);
    // A pattern that matches nothing is a mistake.
    for command in [
        &[
            "-C",
            "film",
            "import",
            "git",
            "../source",
            "--branches",
            "nosuch",
        ][..],
        &[
            "-C",
            "film",
            "export",
            "--git",
            "../x.git",
            "--branches",
            "nosuch",
        ],
    ] {
        let said = place.fails(20, command)?;
        assert!(
            said.contains("no branch matches 'nosuch'; there are fresh, main, "),
            "{said}"
        );
    }
    Ok(())
}

#[test]
fn refs_that_lie_are_left_out() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    let id = |name: &str| git(&place, "source", &["rev-parse", name]);
    let (blob, commit) = (id("main:a.txt")?, id("main")?);
    let tag = |name: &str, text: &str| -> Outcome {
        place.write("source/.git/tag", text)?;
        let put = ["hash-object", "-w", "--literally", "-t", "tag", ".git/tag"];
        let object = git(&place, "source", &put)?;
        place.write(
            format!("source/.git/refs/tags/{name}"),
            format!("{object}\n"),
        )?;
        Ok(())
    };
    tag(
        "blob",
        &format!("object {blob}\ntype commit\ntag blob\n\nm\n"),
    )?;
    tag("deep", &format!("object {blob}\ntype tag\ntag deep\n\nm\n"))?;
    tag(
        "long",
        &format!(
            "object {commit}\ntype commit\ntag long\n\n{}\n",
            "m".repeat(1 << 17)
        ),
    )?;
    let mut packed = format!("{commit} refs/heads/").into_bytes();
    packed.extend(b"bad\xff\n");
    fs::write(place.work().join("source/.git/packed-refs"), packed)?;
    git(&place, "source", &["notes", "add", "-m", "n"])?;
    git(&place, "source", &["branch", "git/x"])?;
    let planned = place.run(&["import", "git", "source", "film", "--json", "--dry-run"])?;
    let planned: serde_json::Value = serde_json::from_slice(&planned.stdout)?;
    let done = place.run(&["import", "git", "source", "film", "--json"])?;
    assert_eq!(done.status.code(), Some(3));
    let told: serde_json::Value = serde_json::from_slice(&done.stdout)?;
    let left = told["left"].as_array().ok_or("a list")?;
    let left: Vec<_> = left
        .iter()
        .filter_map(|left| left["name"].as_str())
        .collect();
    let wanted = ["refs/heads/bad\u{fffd}", "refs/tags/deep", "refs/tags/blob"];
    assert_eq!(left, wanted, "{told}");
    assert_eq!(told["other_refs"][0]["place"], "refs/notes", "{told}");
    assert_eq!(told["changed"].as_array().map(Vec::len), Some(1), "{told}");
    for key in ["left", "other_refs", "changed", "refused"] {
        assert_eq!(told[key], planned[key], "{key}");
    }
    assert_eq!(ref_names(&told), ref_names(&planned));
    let is_refused = |name: &str| ref_names(&planned).contains(&(name.to_owned(), true));
    assert!(is_refused("branch/git/x"), "{planned}");
    assert_eq!(place.ok(&["-C", "film", "tag"])?.lines().count(), 2);
    let said = place.run(&["import", "git", "source", "other"])?;
    let said = String::from_utf8(said.stderr)?;
    assert!(said.contains("no branch 'git/x' is created"), "{said}");
    Ok(())
}

#[test]
fn an_import_that_made_the_repository_can_be_undone_and_begun_again() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    place.ok(&["import", "git", "source", "film"])?;
    place.ok(&["-C", "film", "undo"])?;
    assert!(!place.work().join("film/a.txt").exists());
    let planned = place.ok(&["-C", "film", "import", "git", "../source", "--dry-run"])?;
    assert!(planned.contains("4 commits"), "{planned}");
    // A repository without anything is one in which an import was cut short.
    let again = place.ok(&["import", "git", "source", "film"])?;
    assert!(again.starts_with("4 commits taken"), "{again}");
    place.fails(20, &["import", "git", "source", "film"])?;
    place.ok(&["-C", "film", "branch", "-d", "side"])?;
    git(&place, "source", &["branch", "third", "side"])?;
    let news = place.ok(&["-C", "film", "import", "git", "../source"])?;
    assert!(news.contains("third"), "{news}");
    let branches = place.ok(&["-C", "film", "branch"])?;
    assert!(!branches.contains("side\n"), "{branches}");
    Ok(())
}

#[test]
fn files_in_the_way_hide_nothing_of_the_report() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    let blob = git(&place, "source", &["rev-parse", "main:a.txt"])?;
    git(&place, "source", &["tag", "content", &blob])?;
    place.ok(&["init", "film"])?;
    place.write("film/a.txt", "mine\n")?;
    let said = place.run(&["-C", "film", "import", "git", "../source"])?;
    assert_eq!(said.status.code(), Some(5));
    let said = String::from_utf8([said.stdout, said.stderr].concat())?;
    assert!(
        said.contains("4 commits taken") && said.contains("not taken: refs/tags/content"),
        "{said}"
    );
    assert!(said.contains("its files are not written"), "{said}");
    Ok(())
}

#[test]
fn an_export_keeps_to_the_repository_that_is_named() -> Outcome {
    let Some(place) = source()? else {
        return Ok(());
    };
    place.ok(&["import", "git", "source", "film"])?;
    let refused = |exit: i32, dir: &str| place.fails(exit, &["-C", "film", "export", "--git", dir]);
    // A directory in another repository.
    fs::create_dir(place.work().join("source/inner"))?;
    refused(10, "../source/inner")?;
    // A worktree whose branch has no commit.
    git(&place, "", &["init", "-q", "-b", "main", "fresh"])?;
    let said = refused(3, "../fresh")?;
    assert!(
        said.contains("refs/heads/main: it is checked out there"),
        "{said}"
    );
    assert_eq!(git(&place, "fresh", &["status", "--porcelain"])?, "");
    // A branch in the way of another, and no branch of the name that the repository is on.
    git(&place, "", &["init", "-q", "--bare", "bare.git"])?;
    place.ok(&["-C", "film", "branch", "top/low", "side"])?;
    place.ok(&[
        "-C",
        "film",
        "export",
        "--git",
        "../bare.git",
        "--branches",
        "s*",
    ])?;
    let head = git(&place, "bare.git", &["symbolic-ref", "HEAD"])?;
    assert_eq!(head, "refs/heads/side");
    git(&place, "bare.git", &["branch", "top", "side"])?;
    let said = refused(3, "../bare.git")?;
    assert!(
        said.contains("refs/heads/top/low: refs/heads/top is in the way"),
        "{said}"
    );
    assert!(refs(&place, "bare.git")?.contains("refs/heads/main"));
    Ok(())
}
