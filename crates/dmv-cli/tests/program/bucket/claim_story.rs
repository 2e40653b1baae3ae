//! Three people and one bucket, one of them on a train: the story of the page "Who works on what".

use super::gateway::Gateway;
use super::{KEY, SECRET};
use crate::place::{Outcome, Place};
use std::fs;

const BUCKET: &str = "s3://film/rocks";
const PAGE: &str = include_str!("../../../../../docs/guide/claims.md");

/// What people did and read.
#[derive(Default)]
struct Story(Vec<String>);

impl Story {
    /// Runs a command that ends with this code, and writes down what it prints.
    fn tell(&mut self, who: &Place, exit: i32, args: &[&str]) -> Outcome<String> {
        let quoted = args.iter().map(|arg| {
            if arg.contains(' ') {
                format!("'{arg}'")
            } else {
                (*arg).to_owned()
            }
        });
        let typed: Vec<String> = quoted.collect();
        self.0.push(plain(&format!("$ dmv {}", typed.join(" "))));
        let done = who.run(args)?;
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8(said)?;
        assert_eq!(done.status.code(), Some(exit), "{args:?}: {said}");
        self.0.extend(said.lines().map(plain));
        Ok(said)
    }
}

/// A line without what is different each time: keys, ages, why a store cannot be reached, spaces of a column.
fn plain(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let line = match line.split_once("cannot reach the store: ") {
        Some((before, after)) => {
            let after = after.split_once(';').map_or("", |(_, after)| after);
            format!("{before}cannot reach the store;{after}")
        }
        None => line.to_owned(),
    };
    for word in line.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_key = bare.len() == 12 && bare.bytes().all(|b| b.is_ascii_hexdigit());
        words.push(if is_key {
            word.replace(bare, "KEY")
        } else {
            word.to_owned()
        });
    }
    let text = words.join(" ");
    let Some((before, age)) = text.rsplit_once(", ") else {
        return text;
    };
    let units = ["just now", "second", "minute", "hour", "day"];
    let is_age = units.iter().any(|unit| age.contains(unit));
    let rest = age.split_once("ago").or(age.split_once("just now"));
    match rest.filter(|_| is_age) {
        Some((_, rest)) => format!("{before}, AGO{rest}"),
        None => text,
    }
}

/// The lines of the page's blocks in which commands are typed.
fn lines_of_the_page() -> Vec<String> {
    let blocks = PAGE.split("\n```").skip(1).step_by(2);
    let typed = blocks.filter(|block| block.contains("\n$ dmv "));
    let lines = typed.flat_map(str::lines);
    let all = lines.map(plain).filter(|line| !line.is_empty());
    all.collect()
}

#[test]
fn three_people_and_a_bucket_live_the_story_of_the_page() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let person = |name: &str| -> Outcome<Place> {
        let mut person = Place::new()?;
        person.env.push(("AWS_ACCESS_KEY_ID", KEY.into()));
        person.env.push(("AWS_SECRET_ACCESS_KEY", SECRET.into()));
        person.env.push(("DMV_USER_NAME", name.into()));
        Ok(person)
    };
    let (ada, bob, mut eve) = (person("Ada")?, person("Bob")?, person("Eve")?);
    ada.ok(&["init"])?;
    gateway.add(&ada, "origin", BUCKET)?;
    for scene in ["rock", "tree", "sea"] {
        ada.write(format!("scenes/{scene}.psd"), scene)?;
    }
    ada.commit("scenes")?;
    ada.ok(&["push"])?;
    for person in [&bob, &eve] {
        person.ok(&["clone", BUCKET, ".", "--endpoint", &gateway.endpoint])?;
    }
    let mut story = Story::default();

    story.tell(&ada, 0, &["claim", "scenes/rock.psd", "-m", "new textures"])?;
    story.tell(&bob, 5, &["claim", "scenes/rock.psd"])?;
    eve.ok(&["fetch"])?;
    // Nobody listens at this port.
    let settings = eve.work().join(".dmv/config.toml");
    let known = fs::read_to_string(&settings)?;
    fs::write(
        &settings,
        known.replace(&gateway.endpoint, "http://127.0.0.1:1"),
    )?;
    eve.env.push(("DMV_NET_PATIENCE", "1".into()));
    story.tell(&eve, 0, &["claim", "scenes/tree.psd", "scenes/sea.psd"])?;
    story.tell(&eve, 0, &["claims"])?;
    eve.env.pop();
    bob.ok(&["claim", "scenes/tree.psd"])?;
    fs::write(&settings, known)?;
    story.tell(&eve, 0, &["fetch"])?;
    story.tell(&eve, 0, &["claims"])?;

    ada.write("scenes/rock.psd", "new textures")?;
    ada.commit("textures")?;
    let own = ada.ok(&["claims", "scenes/rock.psd"])?;
    assert!(
        own.starts_with("  retained at origin  scenes/rock.psd  by you"),
        "{own}"
    );
    ada.ok(&["push"])?;
    bob.ok(&["pull"])?;
    story.tell(&bob, 5, &["claim", "scenes/rock.psd"])?;
    story.tell(
        &bob,
        0,
        &["claim", "--take", "scenes/rock.psd", "-m", "deadline"],
    )?;
    story.tell(&ada, 0, &["fetch"])?;
    let mine = ada.records(&["claims", "--mine", "--json"])?;
    assert_eq!(mine[0]["state"], "taken");

    // Each path has one holder, for everybody who has heard of all.
    for person in [&ada, &bob, &eve] {
        person.ok(&["claims", "--refresh"])?;
        let all = person.records(&["claims", "--json"])?;
        let held = all.iter().filter(|claim| claim["state"] == "held");
        let held: Vec<String> = held
            .map(|claim| format!("{}{}", claim["path"], claim["by"]))
            .collect();
        let wanted = [
            "\"scenes/rock.psd\"\"Bob\"",
            "\"scenes/sea.psd\"\"Eve\"",
            "\"scenes/tree.psd\"\"Bob\"",
        ];
        assert_eq!(held, wanted);
    }
    let page = lines_of_the_page();
    assert!(page.len() > 20, "{page:#?}");
    for line in page {
        assert!(
            story.0.contains(&line),
            "the page has {line:?}, and not the run: {:#?}",
            story.0
        );
    }
    Ok(())
}
