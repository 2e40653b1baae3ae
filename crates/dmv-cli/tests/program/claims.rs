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

/// A disk that keeps to claims, with a first commit of some files.
fn keeping_disk() -> Outcome<Place> {
    let disk = Place::with_repository()?;
    for name in ["rock.psd", "tree.psd", "notes"] {
        disk.write(name, name)?;
    }
    disk.commit("first")?;
    disk.ok(&["config", "set", "claims.enforce", "true"])?;
    Ok(disk)
}

struct Person(Place);

impl Person {
    /// Commits another content of a file.
    fn change(&self, path: &str, content: &str) -> Outcome {
        self.0.write(format!("film/{path}"), content)?;
        self.0.run(&on(&["commit", "-m", content]))?;
        Ok(())
    }

    fn ok(&self, args: &[&str]) -> Outcome<String> {
        self.0.ok(&on(args))
    }

    fn refused(&self, args: &[&str]) -> Outcome<String> {
        self.0.fails(5, &on(args))
    }
}

#[test]
fn a_push_is_refused_where_it_changes_what_others_hold_and_nowhere_else() -> Outcome {
    let disk = keeping_disk()?;
    let at = disk.work().display().to_string();
    let (ada, bob) = (Person(person("Ada", &at)?), Person(person("Bob", &at)?));
    // Bob has another version on a branch of his since before the claim.
    bob.ok(&["checkout", "-b", "mine"])?;
    bob.change("rock.psd", "bob's rock")?;
    bob.ok(&["push", "origin", "mine"])?;
    ada.ok(&["claim", "rock.psd", "tree.psd", "-m", "textures"])?;

    // What was pushed before does not come to the branch that the claim is for.
    bob.ok(&["checkout", "main"])?;
    bob.ok(&["branch", "first"])?;
    bob.ok(&["merge", "mine"])?;
    let said = bob.refused(&["push", "origin", "main"])?;
    assert!(said.contains("'rock.psd' is claimed by Ada ("), "{said}");
    assert!(said.contains("dmv claim --take rock.psd"), "{said}");
    assert!(!said.contains("tree.psd"), "{said}");
    // Whoever pushes it as a tag first gets no further.
    bob.ok(&["tag", "sneak"])?;
    bob.ok(&["push", "origin", "sneak"])?;
    bob.refused(&["push", "origin", "main"])?;
    bob.refused(&["push", "origin", "main", "--force"])?;
    let synced = bob.0.run(&on(&["sync"]))?;
    assert_eq!(synced.status.code(), Some(3));
    let said = String::from_utf8(synced.stdout)?;
    assert!(
        said.contains("'rock.psd' is claimed by Ada (") && said.contains("just now"),
        "{said}"
    );
    let synced = bob.0.run(&on(&["sync", "--json"]))?;
    let document: Value = serde_json::from_slice(&synced.stdout)?;
    let refs = document["refs"].as_array().ok_or("refs")?;
    let main = refs.iter().find(|at| at["name"] == "main").ok_or("main")?;
    let held = &main["held"];
    assert_eq!(
        json!([held["path"], held["by"]]),
        json!(["rock.psd", "Ada"])
    );
    bob.ok(&["reset", "--hard", "first"])?;

    // A branch that is behind, and one that takes over what Ada has pushed, changes nothing of hers.
    ada.change("rock.psd", "ada's rock")?;
    ada.ok(&["push"])?;
    bob.ok(&["checkout", "-b", "side"])?;
    bob.change("notes", "bob's notes")?;
    bob.ok(&["push", "origin", "side"])?;
    bob.ok(&["fetch"])?;
    bob.ok(&["merge", "origin/main"])?;
    bob.ok(&["push", "origin", "side"])?;
    bob.ok(&["push", "origin", "side", "first"])?;
    // The claim that is named is the one in the way.
    bob.change("tree.psd", "bob's tree")?;
    let said = bob.refused(&["push", "origin", "side"])?;
    assert!(said.contains("'tree.psd' is claimed by Ada ("), "{said}");
    bob.ok(&["checkout", "-b", "another"])?;
    let said = bob.refused(&["push", "origin", "another"])?;
    assert!(said.contains("'tree.psd' is claimed by Ada ("), "{said}");
    ada.ok(&["release", "--all"])?;
    bob.ok(&["push", "origin", "another"])?;
    Ok(())
}

#[test]
fn claims_of_a_lost_device_are_ended_by_its_key() -> Outcome {
    let disk = keeping_disk()?;
    let at = disk.work().display().to_string();
    let (ada, bob) = (Person(person("Ada", &at)?), Person(person("Bob", &at)?));
    ada.ok(&["claim", "rock.psd", "tree.psd"])?;
    bob.ok(&["fetch"])?;
    let device = bob.0.records(&on(&["claims", "--json"]))?[0]["device"].clone();
    let device = device.as_str().ok_or("a key")?;
    let said = bob.0.fails(20, &on(&["release", "--of", "zz", "--all"]))?;
    assert!(
        said.contains("no device 'zz' has claimed anything"),
        "{said}"
    );
    bob.0
        .fails(20, &on(&["release", "--of", device, "notes"]))?;
    let said = bob.ok(&["release", "--of", &device[..12], "rock.psd", "-m", "lost"])?;
    assert_eq!(said, "ended: rock.psd\n");
    assert_eq!(
        bob.ok(&["claim", "rock.psd"])?,
        "held at origin: rock.psd\n"
    );
    let fetched = ada.0.run(&on(&["fetch"]))?;
    let warned = String::from_utf8(fetched.stderr)?;
    assert!(
        warned.contains(") has ended your claim on 'rock.psd': lost"),
        "{warned}"
    );
    let mine = ada.0.records(&on(&["claims", "--mine", "--json"]))?;
    assert_eq!(
        json!([mine[0]["state"], mine[1]["state"]]),
        json!(["ended", "held"])
    );
    // An ended claim can be cleared like any other.
    assert_eq!(ada.ok(&["release", "rock.psd"])?, "released: rock.psd\n");
    let mine = ada.0.records(&on(&["claims", "--mine", "--json"]))?;
    assert_eq!((mine.len(), &mine[0]["path"]), (1, &json!("tree.psd")));
    ada.0.fails(20, &on(&["release", "rock.psd"]))?;
    Ok(())
}

#[test]
fn many_lost_claims_are_counted() -> Outcome {
    let disk = Place::with_repository()?;
    disk.write("notes", "notes")?;
    disk.commit("first")?;
    let at = disk.work().display().to_string();
    let (ada, bob) = (Person(person("Ada", &at)?), Person(person("Bob", &at)?));
    let names = ["1", "2", "3", "4", "5", "6", "7"];
    ada.ok(&[&["claim"], &names[..]].concat())?;
    bob.ok(&[&["claim", "--take"], &names[..]].concat())?;
    let fetched = ada.0.run(&on(&["fetch"]))?;
    let warned = String::from_utf8(fetched.stderr)?;
    assert_eq!(warned.matches("has taken over").count(), 5, "{warned}");
    let rest = "others are before 2 more claims of yours: dmv claims --mine";
    assert!(warned.contains(rest), "{warned}");
    Ok(())
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

/// The state of the first claim, and the branch where it has landed.
fn state(person: &Person) -> Outcome<Value> {
    let claim = person.0.records(&on(&["claims", "--json"]))?;
    let claim = claim.first().ok_or("a claim")?;
    Ok(json!([claim["state"], claim["landed"]]))
}

#[test]
fn a_claim_is_retained_until_the_work_has_landed() -> Outcome {
    let disk = Place::with_repository()?;
    for name in ["rock.psd", "tree.psd"] {
        disk.write(name, name)?;
    }
    disk.commit("first")?;
    disk.ok(&["checkout", "-b", "aside"])?;
    let at = disk.work().display().to_string();
    let (ada, bob) = (Person(person("Ada", &at)?), Person(person("Bob", &at)?));
    for person in [&ada, &bob] {
        person.ok(&["checkout", "main"])?;
    }
    let (retained, landed) = (json!(["retained", null]), json!(["landed", "origin/main"]));

    // On the branch where work lands, a commit that nobody else has is retained.
    ada.ok(&["claim", "rock.psd", "-m", "textures"])?;
    assert_eq!(state(&ada)?, json!(["held", null]));
    ada.change("tree.psd", "not what was claimed")?;
    assert_eq!(state(&ada)?, json!(["held", null]));
    ada.change("rock.psd", "ada's rock")?;
    assert_eq!(state(&ada)?, retained);
    let mine = ada.ok(&["claims"])?;
    assert!(
        mine.starts_with("  retained at origin  rock.psd  by you on main"),
        "{mine}"
    );
    ada.ok(&["push"])?;
    assert_eq!(state(&ada)?, landed);
    let said = ada.0.run(&on(&["claims"]))?;
    let note = String::from_utf8(said.stderr)?;
    assert_eq!(
        note,
        "note: 1 of your claims has landed: dmv release rock.psd\n"
    );

    // Whoever wants the path next hears of it, here and in lists.
    let said = bob.refused(&["claim", "rock.psd"])?;
    assert!(said.contains("'rock.psd' is claimed by Ada ("), "{said}");
    bob.ok(&["fetch"])?;
    let said = bob.refused(&["claim", "rock.psd", "--anyway"])?;
    assert!(
        said.contains("textures; landed on origin/main; nothing was claimed"),
        "{said}"
    );
    assert_eq!(state(&bob)?, landed);
    let listed = bob.ok(&["ls", "-l"])?;
    assert!(
        listed.contains("textures; landed on origin/main)"),
        "{listed}"
    );
    let states = bob.0.json(&on(&["states", "rock.psd", "--json"]))?;
    let claimed = &states["claimed"];
    let told = json!([
        claimed["by"],
        claimed["state"],
        claimed["landed"],
        claimed["mine"]
    ]);
    assert_eq!(told, json!(["Ada", "landed", "origin/main", false]));

    // Further work is retained anew, and so it is on another branch, for everybody who has it.
    ada.change("rock.psd", "ada's second rock")?;
    assert_eq!(state(&ada)?, retained);
    assert_eq!(state(&bob)?, landed);
    ada.ok(&["release", "--all"])?;
    ada.ok(&["checkout", "-b", "look"])?;
    ada.ok(&["claim", "rock.psd"])?;
    ada.change("rock.psd", "ada's look")?;
    ada.ok(&["push", "origin", "look"])?;
    bob.ok(&["fetch"])?;
    assert_eq!(state(&bob)?, retained);
    let said = bob.refused(&["claim", "rock.psd", "--anyway"])?;
    assert!(
        said.contains("; committed in ") && said.contains(", not landed yet"),
        "{said}"
    );
    // A setting says where work lands.
    bob.ok(&["config", "set", "claims.land", "look"])?;
    assert_eq!(state(&bob)?, json!(["landed", "origin/look"]));
    bob.ok(&["config", "unset", "claims.land"])?;

    // What somebody else does to the path lands nothing of hers.
    bob.ok(&["pull"])?;
    bob.change("rock.psd", "bob's rock")?;
    bob.ok(&["push"])?;
    assert_eq!(state(&bob)?, retained);
    // Her content in a commit of somebody else has landed.
    bob.ok(&["restore", "--from", "origin/look", "rock.psd"])?;
    bob.ok(&["commit", "-m", "all of look"])?;
    bob.ok(&["push"])?;
    assert_eq!(state(&bob)?, landed);
    ada.ok(&["fetch"])?;
    assert_eq!(state(&ada)?, landed);
    Ok(())
}
