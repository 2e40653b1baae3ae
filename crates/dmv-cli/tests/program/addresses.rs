//! Addresses in place of a remote's name, for one command; and failures that name the remote.

use crate::place::several::{commit, several, tip};
use crate::place::{Outcome, Place};
use std::fs;

fn remotes(place: &Place, repo: &str) -> Outcome<usize> {
    Ok(place.records(&["-C", repo, "remote", "--json"])?.len())
}

/// `film`, and clones of it without a remote.
fn strangers(names: &[&str]) -> Outcome<Place> {
    let place = several()?;
    for name in names {
        place.ok(&["clone", "film", name])?;
        place.ok(&["-C", name, "remote", "remove", "origin"])?;
    }
    Ok(place)
}

#[test]
fn fetch_from_an_address_records_its_branches_until_the_next_one() -> Outcome {
    let place = strangers(&["a", "b"])?;
    commit(&place, "film", "new")?;
    place.ok(&["-C", "film", "checkout", "-b", "side"])?;
    commit(&place, "film", "aside")?;
    let film = place.work().join("film").display().to_string();
    for address in [
        "../film",
        &film,
        &format!("file://{film}"),
        &format!("ssh://nas{film}"),
    ] {
        let done = place.json(&["-C", "a", "fetch", address, "--json"])?;
        assert_eq!(done["gone"], serde_json::json!([]), "{address}");
        assert_eq!(
            tip(&place, "a", "FETCH_HEAD/side")?,
            tip(&place, "film", "side")?
        );
        assert_eq!(
            tip(&place, "a", "FETCH_HEAD")?,
            tip(&place, "film", "main")?
        );
    }
    assert_ne!(tip(&place, "a", "main")?, tip(&place, "film", "main")?);
    assert_eq!(remotes(&place, "a")?, 0);
    // Another one, which has no branch `side`.
    place.ok(&["-C", "a", "fetch", "../b"])?;
    assert_eq!(tip(&place, "a", "FETCH_HEAD")?, tip(&place, "b", "main")?);
    place.fails(20, &["-C", "a", "log", "FETCH_HEAD/side"])?;
    // A directory beside this one, without a slash.
    place.ok(&["init", "here"])?;
    fs::rename(place.work().join("b"), place.work().join("here/b"))?;
    place.ok(&["-C", "here", "fetch", "b"])?;
    assert_eq!(
        tip(&place, "here", "FETCH_HEAD")?,
        tip(&place, "here/b", "main")?
    );
    let said = place.fails(20, &["-C", "a", "remote", "add", "FETCH_HEAD", "../film"])?;
    assert!(said.contains("it is reserved"), "{said}");
    Ok(())
}

#[test]
fn pull_from_an_address_merges_the_branch_of_the_same_name() -> Outcome {
    let place = strangers(&["a", "b"])?;
    commit(&place, "film", "one")?;
    commit(&place, "b", "two")?;
    place.ok(&["-C", "a", "pull", "../film", "--ff-only"])?;
    assert_eq!(tip(&place, "a", "main")?, tip(&place, "film", "main")?);
    // Another address lacks what the first had: that is nothing that was replaced.
    let before = tip(&place, "a", "main")?;
    let said = place.fails(5, &["-C", "a", "pull", "../b", "--ff-only"])?;
    assert!(said.contains("cannot be fast-forwarded"), "{said}");
    place.ok(&["-C", "a", "pull", "../b"])?;
    let merged = place.json(&["-C", "a", "log", "-n", "1", "--json"])?;
    assert_eq!(merged["message"], "Merge 'main' of ../b into main");
    for file in ["one", "two"] {
        assert!(place.work().join("a").join(file).exists(), "{file}");
    }
    place.ok(&["-C", "a", "undo"])?;
    assert_eq!(tip(&place, "a", "main")?, before);
    assert!(!place.work().join("a/two").exists());
    place.ok(&["-C", "a", "redo"])?;
    assert!(place.work().join("a/two").exists());
    // Back to what the address has.
    place.ok(&["-C", "a", "pull", "../film", "--reset"])?;
    assert_eq!(tip(&place, "a", "main")?, before);
    assert_eq!(remotes(&place, "a")?, 0);
    place.ok(&["-C", "a", "checkout", "-b", "own"])?;
    let said = place.fails(20, &["-C", "a", "pull", "../film"])?;
    assert!(said.contains("../film has no branch 'own'"), "{said}");
    Ok(())
}

#[test]
fn push_and_sync_take_an_address_and_say_what_is_none() -> Outcome {
    let place = strangers(&["a"])?;
    // Push and sync with an address.
    place.ok(&["init", "--bare", "disk"])?;
    let pushed = place.json(&["-C", "a", "push", "../disk", "--json"])?;
    assert_eq!(
        (&pushed["refs"][0]["name"], &pushed["refs"][0]["pushed"]),
        (&"main".into(), &true.into())
    );
    assert_eq!(tip(&place, "disk", "main")?, tip(&place, "a", "main")?);
    place.fails(20, &["-C", "a", "log", "FETCH_HEAD"])?;
    assert!(
        place
            .ok(&["-C", "a", "push", "../disk"])?
            .contains("already up to date with ../disk")
    );

    // Both ways, and a tag.
    place.ok(&["clone", "disk", "b"])?;
    commit(&place, "b", "theirs")?;
    place.ok(&["-C", "b", "checkout", "-b", "side"])?;
    commit(&place, "b", "aside")?;
    place.ok(&["-C", "b", "sync"])?;
    place.ok(&["-C", "a", "tag", "v1"])?;
    let said = place.run(&["-C", "a", "sync", "../disk"])?;
    assert_eq!(said.status.code(), Some(0));
    let said = String::from_utf8(said.stderr)?;
    assert!(
        said.contains("main is behind FETCH_HEAD/main; to update it: dmv pull ../disk"),
        "{said}"
    );
    assert_eq!(tip(&place, "disk", "v1")?, tip(&place, "a", "main")?);
    assert_eq!(
        tip(&place, "a", "FETCH_HEAD/side")?,
        tip(&place, "b", "side")?
    );
    // New commits on both sides.
    commit(&place, "a", "ours")?;
    let said = place.fails(3, &["-C", "a", "sync", "../disk"])?;
    assert!(said.contains("to combine them: dmv pull ../disk"), "{said}");
    let said = place.fails(5, &["-C", "a", "push", "../disk"])?;
    assert!(said.contains("hint: dmv pull ../disk"), "{said}");
    place.ok(&["-C", "a", "pull", "../disk"])?;
    place.ok(&["-C", "a", "push", "../disk", "--force", "--delete", "side"])?;
    place.fails(20, &["-C", "disk", "log", "side"])?;
    place.ok(&["-C", "a", "push", "../disk"])?;
    assert_eq!(tip(&place, "disk", "main")?, tip(&place, "a", "main")?);
    assert_eq!(remotes(&place, "a")?, 0);

    // What is neither a remote nor an address is said.
    place.ok(&["-C", "a", "remote", "add", "nas", "ssh://unknown/film"])?;
    place.ok(&["-C", "a", "remote", "add", "usb", "../gone"])?;
    let said = |exit, args: &[&str]| place.fails(exit, &[&["-C", "a"], args].concat());
    assert_eq!(
        said(20, &["push", "main"])?,
        "error: there is no remote 'main'\nhint: dmv remote\n"
    );
    let slip = said(20, &["push", "nas/main"])?;
    assert_eq!(
        slip,
        "error: there is no remote 'nas/main'\nhint: dmv push nas main\n"
    );
    let scp = said(10, &["fetch", "user@nas:srv/film"])?;
    assert!(
        scp.contains("hint: this looks like an ssh address: write ssh://user@nas/~/srv/film"),
        "{scp}"
    );
    for command in ["fetch", "pull", "push", "sync"] {
        let gone = said(10, &[command, "usb"])?;
        assert!(
            gone.starts_with("error: remote usb: no repository at "),
            "{gone}"
        );
        assert!(
            gone.contains("run the same command again when it is connected"),
            "{gone}"
        );
        let silent = said(13, &[command, "nas"])?;
        assert!(
            silent.starts_with("error: remote nas: cannot reach ssh://unknown/film: "),
            "{silent}"
        );
        let nowhere = said(10, &[command, "../nowhere"])?;
        assert!(nowhere.starts_with("error: no repository at "), "{nowhere}");
        place.fails(2, &["-C", "a", command, "ftp://nas/film"])?;
    }
    Ok(())
}

#[test]
fn a_pull_gets_content_that_it_lacks_from_the_address() -> Outcome {
    let place = several()?;
    place.ok(&["clone", "film", "copy"])?;
    place.ok(&["clone", "film", "meta", "--meta-only"])?;
    place.ok(&["-C", "meta", "remote", "remove", "origin"])?;
    for repo in ["film", "copy"] {
        // Lines that both can change, far from each other.
        let text: String = (0..40).map(|n| format!("{n}\n")).collect();
        let text = match repo {
            "film" => text.replace("\n3\n", "\nthree\n"),
            _ => text.replace("\n33\n", "\nthirty-three\n"),
        };
        place.write(format!("{repo}/shots/text"), text)?;
    }
    let base: String = (0..40).map(|n| format!("{n}\n")).collect();
    let (ours, theirs) = (
        fs::read(place.work().join("copy/shots/text"))?,
        fs::read(place.work().join("film/shots/text"))?,
    );
    place.write("film/shots/text", &base)?;
    place.ok(&["-C", "film", "commit", "-m", "base"])?;
    fs::remove_file(place.work().join("copy/shots/text"))?;
    place.ok(&["-C", "copy", "pull"])?;
    place.write("film/shots/text", theirs)?;
    place.ok(&["-C", "film", "commit", "-m", "theirs"])?;
    place.write("copy/shots/text", ours)?;
    place.ok(&["-C", "copy", "commit", "-m", "ours"])?;
    place.ok(&["-C", "meta", "pull", "../copy"])?;
    place.ok(&["-C", "film", "fetch", "../copy"])?;
    // To merge the texts it needs their content, and there is no other remote.
    place.ok(&["-C", "meta", "pull", "../film"])?;
    place.ok(&["-C", "film", "pull", "../meta"])?;
    let text = fs::read_to_string(place.work().join("film/shots/text"))?;
    assert!(
        text.contains("\nthree\n") && text.contains("\nthirty-three\n"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_name_that_is_no_revision_may_be_a_path_or_near_a_branch() -> Outcome {
    let place = several()?;
    place.ok(&["clone", "film", "a"])?;
    let said = |args: &[&str]| place.fails(20, &[&["-C", "a"], args].concat());
    for (args, hint) in [
        (&["checkout", "shots/1"][..], "dmv restore shots/1"),
        (
            &["show", "shots/1"],
            "dmv log -p -- shots/1, or dmv cat shots/1",
        ),
        (&["merge", "mian"], "did you mean main?"),
        (&["checkout", "origin/mian"], "did you mean origin/main?"),
        (&["branch", "x", "far-away"], "dmv branch"),
    ] {
        let said = said(args)?;
        assert!(
            said.ends_with(&format!("hint: {hint}\n")),
            "{args:?}: {said}"
        );
    }
    // Also a file that is gone.
    fs::remove_file(place.work().join("a/shots/1"))?;
    assert!(said(&["checkout", "shots/1"])?.ends_with("hint: dmv restore shots/1\n"));
    Ok(())
}
