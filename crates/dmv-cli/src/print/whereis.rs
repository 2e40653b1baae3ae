//! Who has the content of files, as `whereis` shows it.

use crate::context::now;
use crate::covering_paths::above;
use crate::date::ago;
use crate::prelude::*;
use dmv_core::object::list::Blob;
use dmv_core::repo::{CopyState, RemoteContent};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A file, and whether this repository has its content.
pub struct FileCopy {
    /// Its path.
    pub path: RepoPath,
    /// Its content.
    pub blob: Blob,
    /// Whether all of that can be read here.
    pub is_here: bool,
}

/// A remote that may have copies.
pub struct Holder {
    /// Its name.
    pub name: String,
    /// What two remotes have in common that are the same repository.
    pub place: String,
    /// When it was last heard of, in seconds since 1970.
    pub as_of: Option<i64>,
    /// What is known of it.
    pub knowledge: Knowledge,
}

/// Where the knowledge of a remote comes from.
pub enum Knowledge {
    /// From the branches that it had.
    Branches(RemoteContent),
    /// It was asked, and does not keep these.
    Answer(HashSet<ObjectId>),
}

impl Holder {
    fn state(&self, id: &ObjectId) -> CopyState {
        match &self.knowledge {
            Knowledge::Branches(found) => found.state(id),
            Knowledge::Answer(unkept) if unkept.contains(id) => CopyState::Lacks,
            Knowledge::Answer(_) => CopyState::Has,
        }
    }
}

/// Files with those who have them.
pub struct Copies {
    /// The files, in path order.
    pub files: Vec<FileCopy>,
    /// The remotes.
    pub holders: Vec<Holder>,
    /// Only files with fewer copies are listed.
    pub min: Option<u32>,
}

/// Who has a file: whether it is here, and what each remote has.
#[derive(Clone, PartialEq, Eq, Hash)]
struct FilePlaces {
    is_here: bool,
    states: Vec<CopyState>,
}

/// Files that the same repositories have.
struct Group {
    /// Who has them.
    place: FilePlaces,
    /// The places of the files in the list.
    files: Vec<usize>,
}

impl Copies {
    /// Prints the files. Returns whether it has listed any.
    pub fn print(&self, context: &Context) -> Result<bool, Failure> {
        if context.ui.is_json() {
            return self.print_json(context);
        }
        let groups = self.groups();
        let listed = groups.iter().filter(|group| self.is_listed(&group.place));
        let listed: Vec<&Group> = listed.collect();
        let mut out = context.ui.out();
        let folding = FoldedFiles::of(&self.files, &groups);
        for group in &listed {
            let copies = self.count(&group.place);
            let shade = if copies < self.min.unwrap_or(2) {
                AnsiColor::Yellow
            } else {
                AnsiColor::Green
            };
            writeln!(out, "{}", context.ui.paint(color(shade), self.title(group)))?;
            for line in folding.lines(&self.files, &group.files) {
                writeln!(out, "  {line}")?;
            }
        }
        if context.ui.quiet() {
            return Ok(!listed.is_empty());
        }
        if listed.is_empty() {
            writeln!(out, "{}", self.nothing())?;
        }
        if self.files.is_empty() {
            return Ok(false);
        }
        for holder in &self.holders {
            writeln!(out, "{}", holder.age())?;
        }
        if self.holders.is_empty() {
            let text = "note: no remote is configured, so nothing is known of other copies: dmv remote add NAME URL";
            context.ui.note(text);
        }
        Ok(!listed.is_empty())
    }

    fn print_json(&self, context: &Context) -> Result<bool, Failure> {
        let mut is_any = false;
        for file in &self.files {
            let place = self.place(file);
            if !self.is_listed(&place) {
                continue;
            }
            is_any = true;
            let remotes = self.holders.iter().zip(&place.states);
            let remotes = remotes.map(|(holder, state)| {
                object! {
                    holder.{name},
                    state: state.word(),
                    as_of: holder.as_of.map(|seconds| rfc3339(seconds, 0, 0)),
                }
            });
            context.ui.json(&object! {
                ..path(&file.path),
                id: file.blob.id,
                bytes: file.blob.size,
                here: file.is_here,
                copies: self.count(&place),
                remotes: remotes.collect::<Vec<Json>>(),
            })?;
        }
        Ok(is_any)
    }

    fn place(&self, file: &FileCopy) -> FilePlaces {
        let states = self.holders.iter();
        FilePlaces {
            is_here: file.is_here,
            states: states.map(|holder| holder.state(&file.blob.id)).collect(),
        }
    }

    /// The number of known copies. Two remotes that are the same repository have one.
    fn count(&self, place: &FilePlaces) -> u32 {
        let having = self.having(place, CopyState::Has);
        let places: BTreeSet<&str> = having.map(|holder| &holder.place[..]).collect();
        u32::from(place.is_here) + places.len() as u32
    }

    fn having<'c>(
        &'c self,
        place: &'c FilePlaces,
        state: CopyState,
    ) -> impl Iterator<Item = &'c Holder> {
        let all = self.holders.iter().zip(&place.states);
        all.filter(move |(_, has)| **has == state)
            .map(|(holder, _)| holder)
    }

    fn is_listed(&self, place: &FilePlaces) -> bool {
        self.min.is_none_or(|min| self.count(place) < min)
    }

    /// The files by who has them, those with the fewest copies first.
    fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut known: HashMap<FilePlaces, usize> = HashMap::new();
        for (n, file) in self.files.iter().enumerate() {
            let place = self.place(file);
            let at = *known.entry(place).or_insert_with_key(|place| {
                let place = place.clone();
                groups.push(Group {
                    place,
                    files: Vec::new(),
                });
                groups.len() - 1
            });
            groups[at].files.push(n);
        }
        groups.sort_by_key(|group| (self.count(&group.place), group.files.first().copied()));
        groups
    }

    /// `2 copies: here, nas`.
    fn title(&self, group: &Group) -> String {
        let place = &group.place;
        let name = |holder: &Holder| clean(&holder.name);
        let has: Vec<String> = self.having(place, CopyState::Has).map(name).collect();
        let unknown: Vec<String> = self.having(place, CopyState::Unknown).map(name).collect();
        let copies = self.count(place);
        let number = match (copies, unknown.is_empty()) {
            (0, _) => "no known copy".to_owned(),
            (n, true) => count(n.into(), "copy", "copies"),
            (n, false) => count(n.into(), "known copy", "known copies"),
        };
        let here = match (place.is_here, has.is_empty()) {
            (true, true) if unknown.is_empty() => ": only here",
            (true, true) => ": here",
            (true, false) => ": here, ",
            (false, true) => "",
            (false, false) => ", not here: ",
        };
        let has = has.join(", ");
        let unknown = match &unknown[..] {
            [] => String::new(),
            names => format!(" (not known: {})", names.join(", ")),
        };
        format!("{number}{here}{has}{unknown}")
    }

    /// What is said where no file is listed.
    fn nothing(&self) -> String {
        match self.min {
            _ if self.files.is_empty() => "no files with content".to_owned(),
            Some(min) => {
                let files = count(self.files.len() as u64, "file", "files");
                let copies = count(min.into(), "copy", "copies");
                format!("{files}: each has at least {copies}")
            }
            None => String::new(),
        }
    }
}

impl Holder {
    /// Where the knowledge of the remote comes from, in a line.
    fn age(&self) -> String {
        let name = clean(&self.name);
        match (&self.knowledge, self.as_of) {
            (Knowledge::Answer(_), _) => format!("{name} was asked just now"),
            (Knowledge::Branches(_), Some(when)) => {
                let when = ago(when, now().seconds);
                format!("as of the last news from {name}, {when} (--ask asks now)")
            }
            (Knowledge::Branches(_), None) => {
                format!("there was no news from {name} lately (--ask asks now)")
            }
        }
    }
}

/// Directories of which all listed files are in the same group.
struct FoldedFiles<'c>(BTreeMap<&'c [u8], Option<usize>>);

impl<'c> FoldedFiles<'c> {
    fn of(files: &'c [FileCopy], groups: &[Group]) -> FoldedFiles<'c> {
        let mut dirs: BTreeMap<&[u8], Option<usize>> = BTreeMap::new();
        for (group, Group { files: members, .. }) in groups.iter().enumerate() {
            for dir in members
                .iter()
                .flat_map(|n| above(files[*n].path.as_bytes()))
            {
                let known = dirs.entry(dir).or_insert(Some(group));
                if *known != Some(group) {
                    *known = None;
                }
            }
        }
        FoldedFiles(dirs)
    }

    /// The lines for the files of a group: a directory stands for its files where all of them are in it.
    fn lines(&self, files: &'c [FileCopy], members: &[usize]) -> Vec<String> {
        let mut lines: Vec<FileLine<'c>> = Vec::new();
        for n in members {
            let file = files[*n].path.as_bytes();
            let dir = above(file).find(|dir| self.0[dir].is_some());
            match lines.last_mut() {
                Some(last) if dir.is_some() && last.dir == dir => last.files += 1,
                _ => lines.push(FileLine {
                    dir,
                    file,
                    files: 1,
                }),
            }
        }
        lines.iter().map(FileLine::text).collect()
    }
}

/// A file, or the files of a directory.
struct FileLine<'c> {
    dir: Option<&'c [u8]>,
    /// The first file.
    file: &'c [u8],
    files: u64,
}

impl FileLine<'_> {
    fn text(&self) -> String {
        match self.dir {
            Some(dir) if self.files > 1 => {
                format!("{}/ ({})", escape(dir), count(self.files, "file", "files"))
            }
            _ => escape(self.file).to_string(),
        }
    }
}
