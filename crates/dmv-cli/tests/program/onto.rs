//! `commit --onto`: files from elsewhere become a commit, through the program.

use crate::place::{Outcome, Place};
use std::fs;
use std::io::Write;
use std::process::Stdio;

/// Commits an archive from standard input, and returns the exit code and what was said.
fn commit_archive(place: &Place, archive: &[u8]) -> Outcome<(Option<i32>, String)> {
    let args = [
        "commit",
        "-m",
        "x",
        "--onto",
        "main",
        "--from-tar",
        "-",
        "--json",
    ];
    let mut command = place.command(&args);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // It may end before it has read everything.
    let _ = child.stdin.take().ok_or("no input")?.write_all(archive);
    let done = child.wait_with_output()?;
    Ok((done.status.code(), String::from_utf8(done.stderr)?))
}

#[test]
fn a_path_is_either_put_or_removed_and_begins_at_the_root() -> Outcome {
    let place = Place::with_repository()?;
    place.write("d/a", "1\n")?;
    place.commit("first")?;
    fs::write(place.home().join("t.tar"), archive()?)?;
    place.write("new", "2\n")?;
    let onto = ["commit", "-m", "x", "--onto", "main"];
    for (more, why) in [
        (
            ["--put", "d/a=new", "--remove", "d/a"],
            "both put and removed",
        ),
        (
            ["--put", "d//a=new", "--remove", ":/d/./a/"],
            "both put and removed",
        ),
        (
            ["--from-tar", "../home/t.tar", "--remove", "d/a"],
            "both put and removed",
        ),
        (
            ["--put", "b=new", "--remove", "/d/a"],
            "begins with a slash",
        ),
        (
            ["--put", ":/b=new", "--put", "/b=new"],
            "begins with a slash",
        ),
    ] {
        let said = place.fails(2, &[&onto[..], &more].concat())?;
        assert!(said.contains(why), "{more:?}: {said}");
    }
    let said = place.fails(20, &[&onto[..], &["--remove", "none"]].concat())?;
    assert!(said.contains("dmv ls -r main"), "{said}");
    place.ok(&[&onto[..], &["--remove", "d", "--put", ":/d/b=new"]].concat())?;
    let left = place.records(&["ls", "-r", "main:", "--json"])?;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["path"], "d/b");
    Ok(())
}

fn archive() -> Outcome<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in [("d/a", &[b'x'; 700][..]), ("b", b"1"), ("empty", b"")] {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_mtime(7);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, content)?;
    }
    Ok(builder.into_inner()?)
}

#[test]
fn an_archive_that_is_cut_off_anywhere_commits_nothing() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "--bare"])?;
    let whole = archive()?;
    // A block of zeros ends an archive; it is padded behind that.
    let needed = whole.iter().rposition(|b| *b != 0).ok_or("zeros")? / 512 * 512 + 1024;
    let cuts = [
        0, 1, 511, 512, 513, 1023, 1024, 1211, 1212, 1535, 1536, 2048, 2560, 3072,
    ];
    for cut in cuts.into_iter().chain([needed - 513, needed - 1]) {
        assert!(cut < needed, "{cut}");
        let (exit, said) = commit_archive(&place, &whole[..cut])?;
        assert_eq!(exit, Some(20), "{cut}: {said}");
        assert!(said.contains("\"bad-archive\""), "{cut}: {said}");
    }
    assert!(place.records(&["log", "--json"])?.is_empty());
    let (exit, said) = commit_archive(&place, &whole)?;
    assert_eq!(exit, Some(0), "{said}");
    let listed = place.ok(&["ls", "-r", "main:"])?;
    assert_eq!(listed, "b\nd/a\nempty\n");
    Ok(())
}

#[test]
fn files_are_put_and_removed_by_their_paths() -> Outcome {
    let place = Place::with_repository()?;
    place.write("d/a", "1")?;
    place.write("d/b", "1")?;
    place.write("new=", "2")?;
    place.write("a=b", "3")?;
    place.commit("first")?;
    let onto = |more: &[&str]| -> Outcome<serde_json::Value> {
        let args = [&["commit", "-m", "x", "--onto", "main", "--json"], more].concat();
        place.json(&args)
    };
    // A directory that goes away makes room for what comes.
    let made = onto(&["--remove", "d", "--put", "d/b=d/b", "--put", "d/c=d/a"])?;
    assert_eq!(made["files"], 2);
    assert_eq!(place.ok(&["ls", "-r", "main:d"])?, "d/b\nd/c\n");
    // The path, the file, or both have an equals sign.
    for (put, path, content) in [
        ("x=new=", "x", "2"),
        ("p=q=d/a", "p=q", "1"),
        ("r=s=a=b", "r=s", "3"),
        ("t=a=b", "t", "3"),
    ] {
        onto(&["--put", put])?;
        assert_eq!(
            place.ok(&["cat", &format!("main:{path}")])?,
            content,
            "{put}"
        );
    }
    place.fails(2, &["commit", "-m", "x", "--onto", "main", "--put", "none"])?;
    place.fails(
        20,
        &["commit", "-m", "x", "--onto", "main", "--put", "y=none"],
    )?;
    place.fails(
        20,
        &["commit", "-m", "x", "--onto", "main", "--remove", "none"],
    )?;
    let nothing = onto(&["--put", "x=new="])?;
    assert!(nothing["commit"].is_null());
    Ok(())
}

#[test]
fn times_are_kept_and_claims_of_others_are_told() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "--bare", "there"])?;
    place.ok(&["clone", "there", "ada"])?;
    place.write("ada/.dmvattributes", "*.psd times\n")?;
    place.write("ada/rock.psd", "1")?;
    place.ok(&["-C", "ada", "commit", "-m", "first"])?;
    place.ok(&["-C", "ada", "push"])?;
    place.write("new.psd", "2")?;
    let file = fs::File::options()
        .write(true)
        .open(place.work().join("new.psd"))?;
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000))?;
    let args = ["-C", "ada", "commit", "-m", "x", "--onto", "main", "--put"];
    let put = format!("new.psd={}", place.work().join("new.psd").display());
    place.ok(&[&args[..], &[&put]].concat())?;
    let listed = place.records(&["-C", "ada", "ls", "--json", "main:new.psd"])?;
    let time = listed[0]["mtime"].as_str().unwrap_or_default();
    assert!(time.starts_with("2001-09-09T01:46:40"), "{listed:?}");
    // Grace claims a path on a device of her own.
    let mut grace = Place::new()?;
    grace.env = vec![("DMV_USER_NAME", "Grace".into())];
    let there = place.work().join("there");
    grace.ok(&["clone", &there.to_string_lossy(), "grace"])?;
    grace.ok(&["-C", "grace", "claim", "rock.psd", "-m", "textures"])?;
    place.ok(&["-C", "ada", "fetch"])?;
    let put = put.replace("new.psd=", "rock.psd=");
    let done = place.run(&[&args[..], &[&put]].concat())?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("is claimed by Grace"), "{said}");
    Ok(())
}
