//! The rooms and their floors, as ARCHITECTURE.md has them: the tables say what each room may use,
//! and the drawing shows where it stands.

use std::collections::{BTreeMap, BTreeSet};

/// A room of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The line of its row.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// What it may use: rooms of its crate, and other crates of this repository.
    pub may: BTreeSet<String>,
}

/// What the first row of a table of rooms says.
const HEADER: &str = "| room | holds | may use |";
/// What the cell of a room begins with that may use nearly everything.
const EVERY: &str = "every other room";

/// Reads the table of rooms below the heading of `krate`. A room stands below the rooms that it may
/// use. Returns complaints about everything that makes no sense.
pub fn rooms(page: &str, krate: &str) -> Result<Vec<Room>, Vec<String>> {
    let heading = format!("### `crates/{krate}`");
    let mut lines = (1..).zip(page.lines());
    let mut rows = Vec::new();
    if lines.any(|(_, line)| line.starts_with(&heading)) {
        let section = lines.take_while(|(_, line)| !line.starts_with("##"));
        let table = section.skip_while(|(_, line)| *line != HEADER).skip(2);
        rows.extend(table.take_while(|(_, line)| line.starts_with('|')));
    }
    if rows.is_empty() {
        return Err(vec![format!(
            "there is no table '{HEADER}' below '{heading}'"
        )]);
    }
    let mut out: Vec<Room> = Vec::new();
    let mut complaints = Vec::new();
    for (line, row) in rows {
        match room(row, &out) {
            Ok((name, may)) => out.push(Room { line, name, may }),
            Err(why) => complaints.push(format!("{line}: {why}")),
        }
    }
    if complaints.is_empty() {
        Ok(out)
    } else {
        Err(complaints)
    }
}

/// Reads one row. `above` are the rooms in the rows before it.
fn room(row: &str, above: &[Room]) -> Result<(String, BTreeSet<String>), String> {
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    let [name, _, may] = cells[..] else {
        return Err(format!("the row has {} cells instead of 3", cells.len()));
    };
    let name = quoted(name).ok_or_else(|| format!("'{name}' is not one name in backticks"))?;
    if above.iter().any(|room| room.name == name) {
        return Err(format!("'{name}' has a second row"));
    }
    let known = |name: &String| name.starts_with("dmv-") || above.iter().any(|r| r.name == *name);
    let names = |list: &str| -> Result<BTreeSet<String>, String> {
        let mut out = BTreeSet::new();
        for part in list.split(", ").flat_map(|part| part.split(" and ")) {
            let used = quoted(part).ok_or_else(|| {
                format!("'{part}' is not one name in backticks; write '–', `a`, `b`, or '{EVERY}, except `a`'")
            })?;
            if !known(&used) {
                return Err(format!(
                    "'{name}' may use '{used}', which is no room above it"
                ));
            }
            if !out.insert(used) {
                return Err(format!("'{name}' names {part} twice"));
            }
        }
        Ok(out)
    };
    let may = match may.strip_prefix(EVERY) {
        _ if may == "–" => BTreeSet::new(),
        None => names(may)?,
        Some(rest) => {
            let except = match rest.strip_prefix(", except ") {
                Some(list) => names(list)?,
                None if rest.is_empty() => BTreeSet::new(),
                None => return Err(format!("'{rest}' is not ', except `a` and `b`'")),
            };
            let all = above.iter().map(|room| room.name.clone());
            all.filter(|room| !except.contains(room)).collect()
        }
    };
    Ok((name, may))
}

/// Returns the name between two backticks.
fn quoted(text: &str) -> Option<String> {
    let name = text.strip_prefix('`')?.strip_suffix('`')?;
    let is_name = |b: u8| b.is_ascii_lowercase() || b == b'_' || b == b'-';
    (!name.is_empty() && name.bytes().all(is_name)).then(|| name.to_owned())
}

/// Where the drawing puts the rooms of a crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Drawing {
    floors: BTreeMap<String, u32>,
    /// User and used, on one floor.
    arrows: BTreeSet<(String, String)>,
    twice: Vec<String>,
}

/// Reads the drawing of the floors, which is the first fenced block of the page. What stands beside
/// the rooms is text.
pub fn drawing(page: &str, krate: &str, rooms: &[Room]) -> Drawing {
    let block = page.split("```").nth(1).unwrap_or_default();
    let (mut floor, mut of) = (0, "");
    let mut out = Drawing::default();
    for line in block.lines() {
        let mut words = line.split_whitespace().peekable();
        if let Some(number) = words.peek().and_then(|word| word.parse().ok()) {
            floor = number;
            words.next();
        }
        if let Some(name) = words.next_if(|word| word.starts_with("dmv-")) {
            of = name;
        }
        if of == krate {
            // The first word that is left shows where the crate's name ends.
            let rest = words.peek().and_then(|word| line.find(word));
            out.add_line(floor, rest.map_or("", |at| &line[at..]), rooms);
        }
    }
    out
}

impl Drawing {
    /// Adds the rooms of a line: groups that two spaces separate, up to the first text.
    fn add_line(&mut self, floor: u32, line: &str, rooms: &[Room]) {
        let is_room = |name: &str| rooms.iter().any(|room| room.name == name);
        for group in line.split("  ").map(str::trim).filter(|g| !g.is_empty()) {
            let chain: Vec<Vec<&str>> = group
                .split(" → ")
                .map(|part| part.split(", ").collect())
                .collect();
            if !chain.iter().flatten().all(|name| is_room(name)) {
                return;
            }
            for name in chain.iter().flatten() {
                if self.floors.insert((*name).to_owned(), floor).is_some() {
                    self.twice.push((*name).to_owned());
                }
            }
            for (users, used) in chain.iter().zip(chain.iter().skip(1)) {
                let pairs = users
                    .iter()
                    .flat_map(|a| used.iter().map(move |b| (*a, *b)));
                self.arrows
                    .extend(pairs.map(|(a, b)| (a.to_owned(), b.to_owned())));
            }
        }
    }

    /// Compares the drawing with the table of rooms.
    pub fn check(&self, rooms: &[Room]) -> Vec<String> {
        let mut out = Vec::new();
        for name in &self.twice {
            out.push(format!("the drawing of the floors shows '{name}' twice"));
        }
        for (room, used) in pairs(rooms) {
            let (Some(own), Some(below)) = (self.floors.get(room), self.floors.get(used)) else {
                continue;
            };
            let has_arrow = self.arrows.contains(&(room.to_owned(), used.to_owned()));
            if below > own || below == own && !has_arrow {
                out.push(format!(
                    "the table lets '{room}' (floor {own}) use '{used}' (floor {below}), and the \
                     drawing has no arrow from one to the other on one floor"
                ));
            }
        }
        for (room, used) in &self.arrows {
            if !pairs(rooms).any(|pair| pair == (room, used)) {
                out.push(format!(
                    "the drawing has an arrow from '{room}' to '{used}', and the table does not"
                ));
            }
        }
        let missing = rooms.iter().filter(|r| !self.floors.contains_key(&r.name));
        out.extend(
            missing.map(|room| format!("the drawing of the floors does not show '{}'", room.name)),
        );
        out
    }
}

/// Returns each room with each that it may use, in its crate.
fn pairs(rooms: &[Room]) -> impl Iterator<Item = (&str, &str)> {
    rooms
        .iter()
        .flat_map(|room| room.may.iter().map(|used| (&*room.name, &**used)))
}

/// Returns the rooms that the table allows and the code does not use. `used` has user and used.
pub fn unused(rooms: &[Room], used: &BTreeSet<(String, String)>) -> Vec<String> {
    let is_used = |a: &str, b: &str| used.contains(&(a.to_owned(), b.to_owned()));
    rooms
        .iter()
        .flat_map(|room| room.may.iter().map(move |other| (room, other)))
        .filter(|(room, other)| !is_used(&room.name, other))
        .map(|(room, other)| {
            let (line, name) = (room.line, &room.name);
            format!("{line}: '{name}' does not use '{other}': take it out of the table")
        })
        .collect()
}

const PAGE: &str = "
## The floors
```
 4  dmv-b  top → mid
    ──────
 2  dmv-a  high         low text about it
 1         mid → side   other
 0         low          text, and high words
```
### `crates/dmv-a`: a
| other | table |
|---|---|
| x | y |

| room | holds | may use |
|---|---|---|
| `low` | the lowest | – |
| `side` | beside | – |
| `other` | another | `low` |
| `mid` | more | `low`, `side` |
| `high` | all | every other room, except `side` and `low` |

### `crates/dmv-b`: b
| room | holds | may use |
|---|---|---|
| `mid` | a | `dmv-a` |
| `top` | b | `mid` |
";

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_table_is_read_as_people_read_it() {
    let a = rooms(PAGE, "dmv-a").expect("it is in order");
    let names: Vec<&str> = a.iter().map(|room| &*room.name).collect();
    assert_eq!(names, ["low", "side", "other", "mid", "high"]);
    assert_eq!(a[0].may, set(&[]));
    assert_eq!(a[3].may, set(&["low", "side"]));
    assert_eq!(a[4].may, set(&["other", "mid"]));
    assert_eq!(a[0].line, 17);
    let b = rooms(PAGE, "dmv-b").expect("it is in order");
    assert_eq!(
        (b[0].may.clone(), b[1].may.clone()),
        (set(&["dmv-a"]), set(&["mid"]))
    );
    assert!(rooms(PAGE, "dmv-c").is_err());
    assert!(rooms(&PAGE.replace("| room |", "| rooms |"), "dmv-a").is_err());
}

#[test]
fn each_mistake_in_a_table_is_a_complaint() {
    let complaint = |from: &str, to: &str| {
        let page = PAGE.replacen(from, to, 1);
        assert_ne!(page, PAGE, "{from}");
        let complaints = rooms(&page, "dmv-a").expect_err(to);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        complaints[0].clone()
    };
    let row = "| more | `low`, `side` |";
    for (to, want) in [
        (
            "| more | `low`, `sid` |",
            "20: 'mid' may use 'sid', which is no room above it",
        ),
        ("| more | `high` |", "'high', which is no room above it"),
        ("| more | `mid` |", "'mid', which is no room above it"),
        ("| more | `low` `side` |", "is not one name in backticks"),
        ("| more | low |", "'low' is not one name in backticks"),
        ("| more | |", "'' is not one name in backticks"),
        ("| more | `low`, `low` |", "names `low` twice"),
        (
            "| more | every other room but `low` |",
            "' but `low`' is not",
        ),
        (
            "| more | every other room, except `lo` |",
            "'lo', which is no room",
        ),
        ("| more | x | `low` |", "4 cells"),
    ] {
        let found = complaint(row, to);
        assert!(found.contains(want), "{found}");
    }
    assert!(complaint("| `other` |", "| `low` |").contains("'low' has a second row"));
    assert!(complaint("| `high` |", "| high |").contains("not one name"));
}

#[test]
fn the_drawing_must_show_what_the_table_says() {
    let check = |page: &str| {
        let rooms = rooms(page, "dmv-a").expect("it is in order");
        drawing(page, "dmv-a", &rooms).check(&rooms)
    };
    assert_eq!(check(PAGE), [""; 0]);
    for (from, to, want) in [
        (
            "mid → side",
            "mid  side",
            "'mid' (floor 1) use 'side' (floor 1)",
        ),
        (
            "mid → side ",
            "mid → side, other",
            "arrow from 'mid' to 'other'",
        ),
        ("low          text", "text", "does not show 'low'"),
        ("dmv-a  high ", "dmv-a  high  mid ", "shows 'mid' twice"),
        (
            "other\n 0         low ",
            "low\n 0         other ",
            "'other' (floor 0) use 'low' (floor 1)",
        ),
    ] {
        let page = PAGE.replacen(from, to, 1);
        assert_ne!(page, PAGE, "{from}");
        let found = check(&page).join("\n");
        assert!(found.contains(want), "{found}");
    }
    let b = rooms(PAGE, "dmv-b").expect("it is in order");
    assert_eq!(drawing(PAGE, "dmv-b", &b).check(&b), [""; 0]);
}

#[test]
fn a_permission_that_nothing_uses_is_a_complaint() {
    let rooms = rooms(PAGE, "dmv-b").expect("it is in order");
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let mut used = BTreeSet::from([pair("mid", "dmv-a")]);
    let found = unused(&rooms, &used);
    assert_eq!(
        found,
        ["27: 'top' does not use 'mid': take it out of the table"]
    );
    used.insert(pair("top", "mid"));
    assert_eq!(unused(&rooms, &used), [""; 0]);
}
