//! What commands leave in a worktree, what their undo brings back, and what their redo does again: stories, which
//! stand as text in `stories/`.
//!
//! A story begins with `= what it shows`, and each further line is a step:
//!
//! | step | what it does |
//! |---|---|
//! | `write PATH TEXT`, `program PATH TEXT`, `link PATH TARGET`, `dir PATH`, `remove PATH` | what a user does; `\n` and `\0` stand for such bytes |
//! | `commit NAME [PATH…]` | commits, and gives the branch's commit a name for later steps |
//! | `VERB …` | a command of [`Teller::verb`], which has to do all that it is asked for |
//! | `4 VERB …` | the same, and it has to end with this exit code |
//! | `both VERB …`, `4 both VERB …` | runs it, and takes it back and does it again twice: all files have to be the same each time |
//! | `files WHAT…` | nothing else is in the worktree |
//! | `see WHAT…` | this is there: `a=text`, `link->target`, `empty-directory/`, or `-nothing` |
//! | `changes PATH…`, `conflicts PATH…`, `settled PATH…`, `untracking PATH…` | what the status lists |
//! | `unwritten PATH…` | what an earlier command could not write, without an edit of the user since |
//! | `in DIR` | later steps are done in this worktree, which stands beside `r`, the first one |
//! | `name NAME` | gives the branch's commit a name |
//! | `set NAME TEXT` | later steps have TEXT in place of `$NAME`; ` & ` in it stands between steps |
//! | `each STEP \| STEP` | the story is told once with each of the steps, which are several with ` ; ` between them |

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{Repo, StatusOptions, StatusReport};
use dmv_core::worktree::select::Paths;
use dmv_tests::peers::Done;
use dmv_tests::scratch::{Files, Item, fast_dir, files_in, request};
use dmv_tests::verbs::{Driver, Library, Side, Verb};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A repository without a remote, and the commits that a story has named.
struct Teller {
    temp: TempDir,
    /// The worktree in which steps are done.
    root: PathBuf,
    library: Library,
    commits: HashMap<String, ObjectId>,
    /// What `set` has set, the last one first.
    texts: Vec<(String, String)>,
}

fn content(text: &str) -> Vec<u8> {
    text.replace("\\n", "\n").replace("\\0", "\0").into_bytes()
}

fn tree_path(path: &str) -> Vec<u8> {
    if path == "." {
        Vec::new()
    } else {
        path.as_bytes().to_vec()
    }
}

impl Teller {
    fn new() -> Done<Teller> {
        let temp = fast_dir()?;
        let root = temp.path().join("r");
        drop(Repo::init(&root, "main", false, request("init"))?);
        let library = Library::new(temp.path().join("hub"));
        let (commits, texts) = (HashMap::new(), Vec::new());
        Ok(Teller {
            temp,
            root,
            library,
            commits,
            texts,
        })
    }

    fn commit(&self, name: &str) -> Done<ObjectId> {
        let known = self.commits.get(name);
        Ok(*known.ok_or_else(|| format!("no commit is called '{name}'"))?)
    }

    /// Reads a command. An exclamation mark is `--force`, or the `--hard` of a reset.
    fn verb(&self, words: &[&str]) -> Done<Verb> {
        let (name, force) = match words[0].strip_suffix('!') {
            Some(name) => (name, true),
            None => (words[0], false),
        };
        let word = |n: usize| words.get(n).copied().ok_or("a word is missing");
        let path = |n: usize| word(n).map(tree_path);
        let paths = |from: usize| words[from..].iter().map(|path| tree_path(path)).collect();
        let dir = |n: usize| word(n).map(|dir| self.temp.path().join(dir));
        Ok(match name {
            "checkout" => match self.commits.get(word(1)?) {
                Some(commit) => Verb::Detach {
                    commit: *commit,
                    force,
                },
                None => Verb::Checkout {
                    branch: word(1)?.into(),
                    force,
                },
            },
            "switch" => Verb::SwitchNew {
                branch: word(1)?.into(),
                at: self.commit(word(2)?)?,
            },
            "branch" => Verb::Branch {
                name: word(1)?.into(),
                at: self.commit(word(2)?)?,
            },
            "merge" => Verb::Merge {
                commit: self.commit(word(1)?)?,
                forward: true,
            },
            "revert" => Verb::Revert {
                commit: self.commit(word(1)?)?,
            },
            "cherry-pick" => Verb::CherryPick {
                commit: self.commit(word(1)?)?,
            },
            "rebase" => Verb::Rebase {
                onto: self.commit(word(1)?)?,
            },
            "reset" => Verb::Reset {
                to: self.commit(word(1)?)?,
                hard: force,
            },
            "stash" => Verb::Stash { paths: paths(1) },
            "pop" | "apply" => Verb::Unstash {
                number: 0,
                pop: name == "pop",
            },
            "drop-stash" => Verb::DropStash { number: 0 },
            "restore" => match word(1)?.strip_prefix("from:") {
                Some(from) => Verb::Restore {
                    from: Some(self.commit(from)?),
                    paths: paths(2),
                },
                None => Verb::Restore {
                    from: None,
                    paths: paths(1),
                },
            },
            "mv" => Verb::Move {
                from: path(1)?,
                to: path(2)?,
                force,
            },
            "rm" => Verb::Remove {
                path: path(1)?,
                force,
            },
            "untrack" => Verb::Untrack { path: path(1)? },
            "subset" => Verb::SetSubset { paths: paths(1) },
            "subset-add" => Verb::AddSubset { path: path(1)? },
            "subset-remove" => Verb::RemoveSubset { path: path(1)? },
            "resolve" => {
                let side = match word(2)? {
                    "ours" => Side::Ours,
                    "theirs" => Side::Theirs,
                    "base" => Side::Base,
                    "both" => Side::Both,
                    other => return Err(format!("no version is called '{other}'").into()),
                };
                Verb::Resolve {
                    path: path(1)?,
                    side,
                }
            }
            "add-worktree" => Verb::AddWorktree {
                dir: dir(1)?,
                at: Err(self.commit(word(2)?)?),
            },
            "remove-worktree" => Verb::RemoveWorktree {
                dir: dir(1)?,
                force,
            },
            "purge" => Verb::Purge { path: path(1)? },
            "undo" => Verb::Undo,
            "redo" => Verb::Redo,
            other => return Err(format!("there is no step '{other}'").into()),
        })
    }

    fn run(&self, verb: &Verb, code: i32) -> Done {
        let ended = self.library.run(&self.root, verb, true)?;
        if ended.code == code {
            return Ok(());
        }
        Err(format!("it ended with {}, not {code}: {}", ended.code, ended.said).into())
    }

    /// The files of all worktrees, without what the repositories keep.
    fn all_files(&self) -> Done<Files> {
        let is_own = |path: &[u8]| path.windows(5).any(|part| part == b".dmv/");
        let all = files_in(self.temp.path())?.into_iter();
        Ok(all.filter(|(path, _)| !is_own(path)).collect())
    }

    /// Runs a command, takes it back and does it again.
    fn back_and_forth(&self, verb: &Verb, code: i32) -> Done {
        let before = self.all_files()?;
        self.run(verb, code)?;
        let after = self.all_files()?;
        for _ in 0..2 {
            self.run(&Verb::Undo, 0).map_err(|e| format!("undo: {e}"))?;
            same(&self.all_files()?, &before).map_err(|e| format!("after the undo: {e}"))?;
            self.run(&Verb::Redo, 0).map_err(|e| format!("redo: {e}"))?;
            same(&self.all_files()?, &after).map_err(|e| format!("after the redo: {e}"))?;
        }
        Ok(())
    }

    fn status(&self) -> Done<StatusReport> {
        let select = &Paths::default();
        let options = StatusOptions {
            select,
            settings: Default::default(),
        };
        Ok(Repo::open(&self.root)?.status(&options, &Job::default())?)
    }

    /// Does one line of a story.
    fn line(&mut self, line: &str) -> Done {
        let mut text = line.to_owned();
        for (name, value) in &self.texts {
            text = text.replace(&format!("${name}"), value);
        }
        if let Some((name, value)) = text
            .strip_prefix("set ")
            .map(|rest| rest.split_once(' ').unwrap_or((rest, "")))
        {
            self.texts.insert(0, (name.to_owned(), value.to_owned()));
            return Ok(());
        }
        for step in text.split(" & ") {
            self.step(step).map_err(|e| format!("'{step}': {e}"))?;
        }
        Ok(())
    }

    fn step(&mut self, line: &str) -> Done {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let path = || self.root.join(words.get(1).unwrap_or(&""));
        match words[0] {
            "write" | "program" | "link" => {
                let text = line.splitn(3, ' ').nth(2).unwrap_or_default();
                make_room(&self.root, &path())?;
                if words[0] == "link" {
                    return Ok(symlink(text, path())?);
                }
                fs::write(path(), content(text))?;
                let mode = if words[0] == "program" { 0o755 } else { 0o644 };
                Ok(fs::set_permissions(
                    path(),
                    fs::Permissions::from_mode(mode),
                )?)
            }
            "dir" => Ok(fs::create_dir_all(path())?),
            "remove" if path().is_dir() => Ok(fs::remove_dir_all(path())?),
            "remove" => Ok(fs::remove_file(path())?),
            "in" => {
                self.root = self.temp.path().join(words[1]);
                Ok(())
            }
            "name" => {
                let id = Repo::open(&self.root)?.resolve("@")?;
                self.commits.insert(words[1].to_owned(), id);
                Ok(())
            }
            "files" => same(&files_in(&self.root)?, &self.told(&words[1..])?),
            "see" => self.see(&words[1..]),
            "unwritten" => {
                let listed = Repo::open(&self.root)?.unwritten(&Default::default())?;
                let wanted: Vec<Vec<u8>> = words[1..].iter().map(|path| tree_path(path)).collect();
                (listed == wanted)
                    .then_some(())
                    .ok_or_else(|| format!("{listed:?}").into())
            }
            "changes" | "conflicts" | "settled" | "untracking" => {
                let status = self.status()?;
                let text = |paths: &[RepoPath]| paths.iter().map(ToString::to_string).collect();
                let listed: Vec<String> = match words[0] {
                    "changes" => status
                        .changes
                        .iter()
                        .map(|one| one.path.to_string())
                        .collect(),
                    "untracking" => status
                        .untracking
                        .iter()
                        .map(|one| one.path.to_string())
                        .collect(),
                    "conflicts" => text(&status.conflicts),
                    _ => text(&status.settled),
                };
                let wanted = &words[1..];
                (listed == wanted)
                    .then_some(())
                    .ok_or_else(|| format!("{listed:?}").into())
            }
            _ => self.command(&words),
        }
    }

    fn command(&mut self, words: &[&str]) -> Done {
        let (code, words) = match words[0].parse() {
            Ok(code) => (code, &words[1..]),
            Err(_) => (0, words),
        };
        match words {
            ["both", rest @ ..] => self.back_and_forth(&self.verb(rest)?, code),
            ["commit", name, paths @ ..] => {
                let paths = paths.iter().map(|path| tree_path(path)).collect();
                let done = self.run(
                    &Verb::Commit {
                        paths,
                        amend: false,
                    },
                    code,
                );
                if let Ok(id) = Repo::open(&self.root)?.resolve("@") {
                    self.commits.insert((*name).to_owned(), id);
                }
                done
            }
            words => self.run(&self.verb(words)?, code),
        }
    }

    /// What the words of a `files` say is there.
    fn told(&self, words: &[&str]) -> Done<Files> {
        let mut all = Files::new();
        for word in words {
            let (path, item) = if let Some(path) = word.strip_suffix('/') {
                (path, Item::EmptyDir)
            } else if let Some((path, target)) = word.split_once("->") {
                (path, Item::Symlink(target.into()))
            } else {
                let (path, text) = word.split_once('=').ok_or("no content")?;
                let mode = fs::symlink_metadata(self.root.join(path)).map(|stat| stat.mode());
                (
                    path,
                    Item::File(content(text), mode.is_ok_and(|mode| mode & 0o100 != 0)),
                )
            };
            all.insert(path.into(), item);
        }
        Ok(all)
    }

    fn see(&self, words: &[&str]) -> Done {
        for word in words {
            if let Some(gone) = word.strip_prefix('-') {
                if fs::symlink_metadata(self.root.join(gone)).is_ok() {
                    return Err(format!("{gone} is there").into());
                }
                continue;
            }
            let all = files_in(&self.root)?;
            for (path, item) in self.told(&[word])? {
                if all.get(&path) != Some(&item) {
                    return Err(format!("not {word}: {:?}", all.get(&path)).into());
                }
            }
        }
        Ok(())
    }
}

/// Makes the directories above a path in the place of files, and removes what is at the path itself.
fn make_room(root: &Path, path: &Path) -> Done {
    let above: Vec<&Path> = path
        .ancestors()
        .skip(1)
        .take_while(|dir| *dir != root)
        .collect();
    for dir in above.into_iter().rev() {
        if fs::symlink_metadata(dir).is_ok_and(|stat| !stat.is_dir()) {
            fs::remove_file(dir)?;
        }
    }
    fs::create_dir_all(path.parent().ok_or("no directory")?)?;
    match fs::symlink_metadata(path) {
        Ok(stat) if stat.is_dir() => Ok(fs::remove_dir_all(path)?),
        Ok(_) => Ok(fs::remove_file(path)?),
        Err(_) => Ok(()),
    }
}

fn same(found: &Files, wanted: &Files) -> Done {
    let shown = |files: &Files| -> Vec<String> {
        let one =
            |(path, item): (&Vec<u8>, &Item)| format!("{} {item:?}", String::from_utf8_lossy(path));
        files.iter().map(one).collect()
    };
    (found == wanted)
        .then_some(())
        .ok_or_else(|| format!("{:#?} instead of {:#?}", shown(found), shown(wanted)).into())
}

/// The stories of a file, each once for every alternative.
fn stories(text: &str) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match (line.strip_prefix("= "), all.last_mut()) {
            (Some(name), _) => all.push((name.to_owned(), Vec::new())),
            (None, Some((_, steps))) => steps.push(line.to_owned()),
            (None, None) => all.push((String::new(), vec![line.to_owned()])),
        }
    }
    let mut told = Vec::new();
    while let Some((name, steps)) = all.pop() {
        match steps.iter().position(|step| step.starts_with("each ")) {
            None => told.push((name, steps)),
            Some(at) => all.extend(steps[at]["each ".len()..].split(" | ").map(|way| {
                let way = way.split(" ; ").map(str::to_owned);
                let (before, after) = (&steps[..at], &steps[at + 1..]);
                (
                    name.clone(),
                    [before, &way.collect::<Vec<_>>(), after].concat(),
                )
            })),
        }
    }
    told
}

/// Tells all stories of a file; the error has all that fail.
fn tell(file: &str) -> Done {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library/stories");
    let told = stories(&fs::read_to_string(dir.join(file))?);
    assert!(!told.is_empty(), "{file} has no story");
    let mut failed = Vec::new();
    for (name, steps) in told {
        let mut teller = Teller::new()?;
        for (n, step) in steps.iter().enumerate() {
            if let Err(e) = teller.line(step) {
                failed.push(format!(
                    "{name}: at '{step}': {e}\n  after: {}",
                    steps[..n].join(" ; ")
                ));
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    Ok(())
}

#[test]
fn undo_and_redo_of_every_switch() -> Done {
    tell("switches.txt")
}

#[test]
fn what_is_overwritten_on_request_comes_back() -> Done {
    tell("overwritten.txt")
}

#[test]
fn conflicts_and_their_choices() -> Done {
    tell("conflicts.txt")
}

#[test]
fn merges_picks_and_reverts() -> Done {
    tell("history.txt")
}

#[test]
fn what_the_model_of_all_commands_has_found() -> Done {
    tell("found.txt")
}

#[test]
fn stashes_notes_and_subsets() -> Done {
    tell("stashes.txt")
}
