//! Newer versions of files on other branches, as a user sees them.

use crate::place::Outcome;
use crate::place::several::several;
use serde_json::json;

#[test]
fn newer_versions_elsewhere_are_listed_and_told_by_status_and_commit() -> Outcome {
    let place = several()?;
    place.ok(&["clone", "film", "two"])?;
    place.write("film/shots/1", "theirs")?;
    let grace = [
        "-C",
        "film",
        "commit",
        "-m",
        "theirs",
        "--author",
        "Grace <g@x>",
    ];
    place.ok(&grace)?;
    let newer = ["-C", "two", "newer", "--exit-code"];
    assert_eq!(place.ok(&newer)?, "no newer versions\n");
    place.ok(&["-C", "two", "fetch"])?;
    let said = String::from_utf8(place.run(&newer)?.stdout)?;
    let expected = "  modified  shots/1  on origin/main, by Grace, just now\n\
                    as of the last news from origin, just now\n\
                    to combine them with yours: dmv merge origin/main\n";
    assert_eq!(said, expected);
    assert_eq!(place.run(&newer)?.status.code(), Some(1));
    let found = place.records(&["-C", "two", "newer", "shots", "--json"])?;
    assert_eq!(found.len(), 1, "{found:?}");
    let ours = ["path", "change", "remote", "branch", "author"].map(|name| &found[0][name]);
    assert_eq!(
        json!(ours),
        json!(["shots/1", "modified", "origin", "main", "Grace"])
    );
    assert_eq!(
        place.records(&["-C", "two", "newer", "shots/2", "--json"])?,
        Vec::<serde_json::Value>::new()
    );
    place.fails(20, &["-C", "two", "newer", "nowhere"])?;

    let long = place.ok(&["-C", "two", "ls", "-l", "shots"])?;
    let mark = "shots/1  (newer on origin/main, by Grace, just now)\n";
    assert!(long.contains(mark), "{long}");
    assert_eq!(long.matches("newer").count(), 1, "{long}");
    let root = place.ok(&["-C", "two", "ls", "-l", "@"])?;
    assert!(!root.contains("newer"), "{root}");

    // Another file of one's own is no reason to speak of it.
    place.write("two/mine", "mine")?;
    assert!(!place.ok(&["-C", "two", "status"])?.contains("newer"));
    place.write("two/shots/1", "ours")?;
    let said = place.ok(&["-C", "two", "status"])?;
    assert!(
        said.contains("newer     shots/1  on origin/main, by Grace, just now"),
        "{said}"
    );
    let status = place.json(&["-C", "two", "status", "--json"])?;
    assert_eq!(status["newer"], json!(found));
    let done = place.run(&["-C", "two", "commit", "-m", "ours"])?;
    let warned = "warning: origin/main has a newer version of shots/1, by Grace, just now\n";
    assert_eq!(String::from_utf8(done.stderr)?, warned);

    // What was merged is known.
    assert_eq!(place.run(&["-C", "two", "pull"])?.status.code(), Some(4));
    assert_eq!(place.ok(&newer)?, "no newer versions\n");
    Ok(())
}
