//! Claims of three people and a disk, as they see them.

use crate::place::{Outcome, Place};
use serde_json::{Value, json};

/// A person with a device and a clone of the repository `film` of the first one.
fn person(name: &str, disk: &str) -> Outcome<Place> {
    let mut place = Place::new()?;
    place.env.push(("DMV_USER_NAME", name.into()));
    place.ok(&["clone", disk, "film"])?;
    Ok(place)
}

fn on(args: &[&str]) -> Vec<String> {
    let all = ["-C", "film"].iter().chain(args);
    all.map(|arg| (*arg).to_owned()).collect()
}

fn told(found: &[Value]) -> Value {
    let fields = ["path", "by", "state", "at", "mine"];
    let line = |claim: &Value| fields.map(|name| claim[name].clone());
    json!(found.iter().map(line).collect::<Vec<_>>())
}

#[test]
fn three_people_and_a_disk_know_who_works_on_what() -> Outcome {
    let disk = Place::with_repository()?;
    disk.write("rock.psd", "rock")?;
    disk.write("tree.psd", "tree")?;
    disk.commit("first")?;
    let at = disk.work().display().to_string();
    let (ada, bob) = (person("Ada", &at)?, person("Bob", &at)?);
    let eve = person("Eve", &at)?;

    assert_eq!(ada.ok(&on(&["claims"]))?, "no claims\n");
    let claim = ada.ok(&on(&["claim", "rock.psd", "-m", "textures"]))?;
    assert_eq!(claim, "held at origin: rock.psd\n");
    let said = bob.fails(5, &on(&["claim", "rock.psd"]))?;
    assert!(said.contains("'rock.psd' is claimed by Ada ("), "{said}");
    assert!(
        said.contains("just now: textures; nothing was claimed"),
        "{said}"
    );
    let records = bob.run(&on(&["claim", "rock.psd", "--json"]))?;
    let record: Value = serde_json::from_slice(&records.stdout)?;
    assert_eq!(
        json!([record["path"], record["state"], record["by"], record["at"]]),
        json!(["rock.psd", "other", "Ada", "origin"])
    );

    // Offline, a claim is a note.
    let noted = eve.ok(&on(&["claim", "tree.psd", "--offline"]))?;
    assert_eq!(noted, "noted, not yet known to others: tree.psd\n");
    eve.ok(&on(&["fetch"]))?;
    let all = json!([
        ["rock.psd", "Ada", "held", "origin", false],
        ["tree.psd", "Eve", "held", "origin", true]
    ]);
    assert_eq!(told(&eve.records(&on(&["claims", "--json"]))?), all);
    let mine = eve.records(&on(&["claims", "--mine", "--json"]))?;
    assert_eq!(told(&mine), json!([all[1]]));

    // Whoever changes what somebody else has claimed hears it, and may commit.
    bob.write("film/rock.psd", "another rock")?;
    let status = bob.ok(&on(&["status"]))?;
    assert!(
        status.contains("claimed   'rock.psd' is claimed by Ada ("),
        "{status}"
    );
    let status = bob.json(&on(&["status", "--json"]))?;
    assert_eq!(status["claims"][0]["by"], "Ada");
    let done = bob.run(&on(&["commit", "-m", "rock"]))?;
    assert_eq!(done.status.code(), Some(0));
    let warned = String::from_utf8(done.stderr)?;
    assert!(
        warned.contains("warning: 'rock.psd' is claimed by Ada ("),
        "{warned}"
    );

    // The disk keeps to claims, once it is told to.
    disk.ok(&["config", "set", "claims.enforce", "true"])?;
    assert_eq!(disk.ok(&["config", "get", "claims.enforce"])?, "true\n");
    let said = bob.fails(5, &on(&["push"]))?;
    assert!(
        said.contains("another device holds a path that it changes"),
        "{said}"
    );
    assert!(said.contains("'rock.psd' is claimed by Ada ("), "{said}");
    let taken = bob.ok(&on(&["claim", "--take", "rock.psd", "-m", "deadline"]))?;
    assert_eq!(taken, "held at origin: rock.psd\n");
    bob.ok(&on(&["push"]))?;
    let fetched = ada.run(&on(&["fetch"]))?;
    let warned = String::from_utf8(fetched.stderr)?;
    assert!(
        warned.contains(") has taken over 'rock.psd', which you had claimed: deadline"),
        "{warned}"
    );
    let mine = ada.records(&on(&["claims", "--mine", "--json"]))?;
    assert_eq!(mine[0]["state"], "taken");

    // What is newer elsewhere is not claimed by mistake.
    ada.ok(&on(&["release", "--all"]))?;
    bob.ok(&on(&["release", "rock.psd"]))?;
    let said = ada.fails(5, &on(&["claim", "rock.psd"]))?;
    assert!(
        said.contains("'rock.psd' is newer on origin/main, by Bob"),
        "{said}"
    );
    ada.ok(&on(&["claim", "--anyway", "rock.psd"]))?;
    ada.ok(&on(&["undo"]))?;
    assert_eq!(
        told(&ada.records(&on(&["claims", "--mine", "--json"]))?),
        json!([])
    );
    Ok(())
}
