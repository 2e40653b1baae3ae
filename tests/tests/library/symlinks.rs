//! Another process replaces directories of the worktree by symlinks that lead out of it, while
//! commands read and write there. Nothing outside may change, and nothing from outside may get into
//! the repository.
//!
//! The long run makes `DMV_SWAPS` swaps (100,000): `tests/tier.sh night --only symlinks --release`.

#![allow(clippy::print_stdout)]

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{CheckoutOptions, CheckoutTarget, Repo, StatusOptions, UndoOptions, UndoWhat};
use dmv_core::worktree::select::Paths;
use dmv_tests::rng::{Rng, number, seed};
use dmv_tests::scratch::{Files, Item, commit, fast_dir, files_in, files_of, request};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const DIRS: u64 = 3;
const FILES: u64 = 12;

/// What only files outside of the worktree contain.
const CANARY: &[u8] = b"secret, outside of the worktree";

/// A worktree with two commits, a directory outside with the same names, and a place for directories
/// that gave way to symlinks.
struct Stage {
    root: PathBuf,
    outside: PathBuf,
    aside: PathBuf,
    commits: Vec<ObjectId>,
}

impl Stage {
    fn new(temp: &Path) -> Outcome<Stage> {
        let [root, outside, aside] = ["w", "outside", "aside"].map(|name| temp.join(name));
        for dir in [&root, &outside, &aside] {
            fs::create_dir(dir)?;
        }
        let repo = Repo::init(&root, "main", false, request("init"))?;
        let mut commits = Vec::new();
        for (branch, is_last) in [("a", false), ("b", true)] {
            for path in paths() {
                write(&root.join(&path), format!("{branch}: {path}").as_bytes())?;
                if is_last {
                    write(&outside.join(&path), CANARY)?;
                }
            }
            commits.push(commit(&repo, branch)?.commit.ok_or("a commit")?);
        }
        Ok(Stage {
            root,
            outside,
            aside,
            commits,
        })
    }

    /// Puts a symlink in the place of a directory for a moment. Returns whether it was there.
    fn swap(&self, rng: &mut Rng, number: u64) -> bool {
        let name = format!("d{}", rng.below(DIRS));
        let (dir, aside) = (self.root.join(&name), self.aside.join(number.to_string()));
        let is_dir = fs::symlink_metadata(&dir).is_ok_and(|stat| stat.is_dir());
        if !is_dir || fs::rename(&dir, &aside).is_err() {
            return false;
        }
        let done = symlink(self.outside.join(&name), &dir).is_ok();
        for _ in 0..rng.below(2000) {
            std::hint::spin_loop();
        }
        // A command may have put something else there by now.
        let is_ours = fs::read_link(&dir).is_ok_and(|to| to.starts_with(&self.outside));
        if is_ours {
            let _ = fs::remove_file(&dir);
        }
        let is_back = fs::rename(&aside, &dir).is_ok();
        if !is_back {
            let _ = fs::remove_dir_all(&aside);
        }
        done
    }

    /// Runs a command. It may refuse, since the worktree changes under it.
    fn run(&self, rng: &mut Rng) -> Outcome<bool> {
        let repo = Repo::open(&self.root)?;
        let job = Job::default();
        let settings = Default::default;
        let other = self.commits[rng.below(2) as usize];
        let done = match rng.below(6) {
            0 => {
                let select = Paths::default();
                let options = StatusOptions {
                    select: &select,
                    settings: settings(),
                };
                repo.status(&options, &job).map(drop)
            }
            1 => {
                let paths = (0..DIRS).map(|n| Repo::parse_path(format!("d{n}").as_bytes()));
                let paths = paths.collect::<Result<Vec<_>, _>>()?;
                repo.restore(Some(other), &paths, &settings(), request("restore"), &job)
                    .map(drop)
            }
            2 => {
                let options = UndoOptions {
                    what: UndoWhat::Last,
                    settings: settings(),
                    request: request("undo"),
                };
                repo.undo(&options, &job).map(drop)
            }
            3 => commit(&repo, "beside").map(drop),
            _ => {
                let options = CheckoutOptions {
                    subset: None,
                    force: true,
                    settings: settings(),
                    request: request("checkout"),
                };
                let target = CheckoutTarget::Commit(other);
                repo.checkout(target, &options, &job).map(drop)
            }
        };
        Ok(done.is_ok())
    }

    /// Checks that nothing outside has changed, and that no commit holds anything from there.
    fn check(&self, outside: &Files) -> Outcome {
        assert_eq!(files_in(&self.outside)?, *outside, "changed outside");
        let repo = Repo::open(&self.root)?;
        for key in [
            "worktree/main/base",
            "worktree/main/steps",
            "worktree/main/begun",
        ] {
            let Some(id) = repo.refs().get(key)? else {
                continue;
            };
            let mut next = Some(ObjectId::from_bytes(id[..].try_into()?));
            while let Some(id) = next {
                let files = files_of(&repo, &id)?;
                let is_stolen =
                    |item: &Item| matches!(item, Item::File(bytes, _) if bytes == CANARY);
                let stolen = files.iter().find(|(_, item)| is_stolen(item));
                assert_eq!(stolen, None, "{key} holds a file from outside");
                next = repo.read_commit(&id)?.parents.first().copied();
            }
        }
        Ok(())
    }
}

fn paths() -> impl Iterator<Item = String> {
    (0..DIRS).flat_map(|dir| (0..FILES).map(move |file| format!("d{dir}/f{file}")))
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, bytes)
}

/// Makes `swaps` swaps beside commands. A new repository begins after every 2,000.
fn swap_beside_commands(swaps: u64, seed: u64) -> Outcome {
    let (mut made, mut done, mut refused, mut round) = (0, 0, 0, 0);
    while made < swaps {
        round += 1;
        let temp = fast_dir()?;
        let stage = Stage::new(temp.path())?;
        let outside = files_in(&stage.outside)?;
        let (count, runs, stop) = (
            AtomicU64::new(0),
            AtomicBool::new(false),
            AtomicBool::new(false),
        );
        let goal = (swaps - made).min(2000);
        std::thread::scope(|scope| -> Outcome {
            scope.spawn(|| {
                let mut rng = Rng::new(seed + 2 * round);
                while !stop.load(Ordering::Relaxed) {
                    let is_beside = runs.load(Ordering::Relaxed);
                    if is_beside && stage.swap(&mut rng, count.load(Ordering::Relaxed)) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            let _stop = Stop(&stop);
            let mut rng = Rng::new(seed + 2 * round + 1);
            while count.load(Ordering::Relaxed) < goal {
                runs.store(true, Ordering::Relaxed);
                let is_done = stage.run(&mut rng)?;
                runs.store(false, Ordering::Relaxed);
                done += u64::from(is_done);
                refused += u64::from(!is_done);
                assert!(refused < 1000 + 10 * done, "the commands only refuse");
                stage.check(&outside)?;
            }
            Ok(())
        })?;
        made += count.load(Ordering::Relaxed);
    }
    println!(
        "harness symlinks: {made} swaps beside {} commands ({refused} refused), 0 failed, seed {seed}",
        done + refused
    );
    assert!(done > 0);
    Ok(())
}

/// Ends the thread, also after a failure.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn directories_that_become_symlinks_lead_no_command_outside() -> Outcome {
    swap_beside_commands(number("DMV_SWAPS", 5000), seed(1))
}
