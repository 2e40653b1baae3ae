//! Revisions that name a commit by its id in Git.

use dmv_core::history::load_commit;
use dmv_core::repo::split_path;
use dmv_tests::peers::{Done, Place};

#[test]
fn an_id_of_git_is_looked_up_by_the_caller() -> Done {
    let place = Place::with_files(1, 1, 10)?;
    let first = place.tip()?;
    place.write("second", b"x")?;
    let second = place.commit("second")?;
    // Without a caller that can, nothing has such a name.
    assert!(place.repo.resolve("git:aaaa").is_err());
    place.repo.read_git_ids_by(|query| {
        Ok(match query.hex {
            "aaaa" => query.tips.clone(),
            "bbbb" => {
                let tip = load_commit(query.objects, &query.tips[0])?;
                [&query.tips[..], &tip.parents].concat()
            }
            _ => Vec::new(),
        })
    });
    assert_eq!(place.repo.resolve("git:AAAA")?, second);
    assert_eq!(place.repo.resolve("git:aaaa~")?, first);
    let said = |text: &str| place.repo.resolve(text).map_err(|e| e.to_string()).err();
    let ambiguous = format!(
        "'git:bbbb' is ambiguous; it matches the commits {}, {}",
        second.short(12),
        first.short(12)
    );
    assert_eq!(said("git:bbbb"), Some(ambiguous));
    let unknown = "there is no branch, tag or commit 'git:cccc'".to_owned();
    assert_eq!(said("git:cccc"), Some(unknown));
    // Fewer digits, and other letters, are a path in a branch.
    for (text, revision) in [
        ("git:aaaa", "git:aaaa"),
        ("git:aaaa:d/f", "git:aaaa"),
        ("git:aaaa^2~3:d/f", "git:aaaa^2~3"),
        ("git:aaa", "git"),
        ("git:aaaax", "git"),
        ("git:aaaa/x", "git"),
    ] {
        assert_eq!(split_path(text.as_bytes()).0, revision, "{text}");
    }
    Ok(())
}
