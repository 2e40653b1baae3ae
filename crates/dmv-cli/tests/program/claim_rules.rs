//! Files that are to be claimed before they are changed, as `.dmvattributes` says.

use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A repository `film` with a clone `own`, and rules about claims.
fn place() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    place.write(
        "film/.dmvattributes",
        "*.psd claim=readonly\n*.blend claim=ask\nfree/ -claim\n",
    )?;
    for name in ["rock.psd", "tool.psd", "scene.blend", "notes", "free/a.psd"] {
        place.write(format!("film/{name}"), name)?;
    }
    let tool = place.work().join("film/tool.psd");
    fs::set_permissions(tool, fs::Permissions::from_mode(0o755))?;
    place.ok(&["-C", "film", "commit", "-m", "first"])?;
    place.ok(&["clone", "film", "own"])?;
    Ok(place)
}

fn own(place: &Place, args: &[&str]) -> Outcome<String> {
    place.ok(&[&["-C", "own"], args].concat())
}

/// Who may write to a file of `own`, and who may run it.
fn mode(place: &Place, name: &str) -> Outcome<u32> {
    let meta = fs::metadata(place.work().join("own").join(name))?;
    Ok(meta.permissions().mode() & 0o333)
}

fn unclaimed(place: &Place) -> Outcome<Value> {
    let status = place.json(&["-C", "own", "status", "--json"])?;
    let paths = status["unclaimed"].as_array().into_iter().flatten();
    Ok(paths.map(|at| at["path"].clone()).collect())
}

#[test]
fn files_are_open_again_where_no_rule_is_about_them() -> Outcome {
    let place = place()?;
    place.write("film/.dmvattributes", "*.blend claim=ask\n")?;
    place.write("film/rock.psd", "another rock")?;
    place.ok(&["-C", "film", "commit", "-m", "no rule"])?;
    own(&place, &["pull"])?;
    assert_eq!(mode(&place, "rock.psd")?, 0o200);
    // Rules come to files that are there by a claim and a release.
    place.write("own/.dmvattributes", "*.psd claim=readonly\n")?;
    own(&place, &["commit", "-m", "rule"])?;
    assert_eq!(mode(&place, "rock.psd")?, 0o200);
    place.write("own/rock.psd", "edited")?;
    own(&place, &["claim", "free"])?;
    own(&place, &["release", "free"])?;
    assert_eq!(mode(&place, "free/a.psd")?, 0);
    assert_eq!(mode(&place, "rock.psd")?, 0o200);
    Ok(())
}

#[test]
fn files_are_read_only_until_they_are_claimed_and_a_status_names_those_that_should_be() -> Outcome {
    // A status names changed files that should be claimed.
    let place = place()?;
    assert_eq!(unclaimed(&place)?, json!([]));
    for name in ["scene.blend", "new.blend", "notes", "free/a.psd"] {
        place.write(format!("own/{name}"), "changed")?;
    }
    assert_eq!(unclaimed(&place)?, json!(["scene.blend"]));
    let said = own(&place, &["status"])?;
    let want = "files that should be claimed before a change (dmv claim PATH):\n  unclaimed  scene.blend\n";
    assert!(said.contains(want), "{said}");
    own(&place, &["claim", "scene.blend"])?;
    assert_eq!(unclaimed(&place)?, json!([]));

    // A file with edits keeps its permissions.
    own(&place, &["restore", "."])?;
    own(&place, &["release", "scene.blend"])?;
    fs::remove_file(place.work().join("own/new.blend"))?;
    own(&place, &["claim", "rock.psd"])?;
    place.write("own/rock.psd", "an edit")?;
    let done = place.run(&["-C", "own", "release", "rock.psd"])?;
    let said = String::from_utf8(done.stderr)?;
    assert!(
        said.contains("'rock.psd' has changes, so it does not become read-only"),
        "{said}"
    );
    assert_eq!(mode(&place, "rock.psd")?, 0o200);
    assert_eq!(unclaimed(&place)?, json!(["rock.psd"]));
    // What a command overwrote comes back as it was left.
    own(&place, &["restore", "rock.psd"])?;
    assert_eq!(mode(&place, "rock.psd")?, 0);
    own(&place, &["undo"])?;
    assert_eq!(
        fs::read_to_string(place.work().join("own/rock.psd"))?,
        "an edit"
    );
    assert_eq!(mode(&place, "rock.psd")?, 0o200);

    // Files are read-only until they are claimed.
    own(&place, &["restore", "rock.psd"])?;
    assert_eq!(mode(&place, "rock.psd")?, 0);
    assert_eq!(mode(&place, "tool.psd")? & 0o222, 0);
    for name in ["scene.blend", "notes", "free/a.psd"] {
        assert_eq!(mode(&place, name)? & 0o200, 0o200, "{name}");
    }
    assert!(own(&place, &["status"])?.contains("nothing changed"));

    own(&place, &["claim", "rock.psd"])?;
    assert_eq!(mode(&place, "rock.psd")?, 0o200);
    own(&place, &["undo"])?;
    assert_eq!(mode(&place, "rock.psd")?, 0);
    own(&place, &["redo"])?;
    assert_eq!(mode(&place, "rock.psd")?, 0o200);

    // A commit does not store it, and what was committed is closed again by a release.
    place.write("own/rock.psd", "ada's rock")?;
    own(&place, &["commit", "-m", "rock"])?;
    let listed = place.records(&["-C", "own", "ls", "--json"])?;
    let kind = |name| {
        listed
            .iter()
            .find(|entry| entry["path"] == name)
            .map(|entry| &entry["kind"])
    };
    assert_eq!(kind("rock.psd"), Some(&json!("file")));
    assert_eq!(kind("tool.psd"), Some(&json!("executable")));
    own(&place, &["release", "rock.psd"])?;
    assert_eq!(mode(&place, "rock.psd")?, 0);
    assert!(own(&place, &["status"])?.contains("nothing changed"));

    // Whatever a checkout writes is read-only again.
    own(&place, &["checkout", "@~1"])?;
    assert_eq!(mode(&place, "rock.psd")?, 0);
    own(&place, &["checkout", "main"])?;
    assert_eq!(mode(&place, "rock.psd")?, 0);
    own(&place, &["claim", "rock.psd"])?;
    own(&place, &["checkout", "@~1"])?;
    assert_eq!(mode(&place, "rock.psd")?, 0o200);
    Ok(())
}

#[test]
fn rules_that_cannot_be_used_stop_nothing() -> Outcome {
    let place = place()?;
    for text in [
        "*.psd claim=readonly\n".repeat(60_000),
        "[ claim=readonly\n\u{7} claim=auto\n* claim=never\n".to_owned(),
    ] {
        place.write("film/.dmvattributes", text)?;
        place.ok(&["-C", "film", "commit", "-m", "rules"])?;
        place.ok(&["clone", "film", "other"])?;
        assert!(
            place
                .ok(&["-C", "other", "status"])?
                .contains("nothing changed")
        );
        fs::remove_dir_all(place.work().join("other"))?;
    }
    let done = place.run(&["-C", "film", "keep", "list"])?;
    let said = String::from_utf8(done.stderr)?;
    assert!(said.contains("write claim=ask or claim=readonly"), "{said}");
    Ok(())
}
