//! The tools that are compared, as a table of commands.
//!
//! No shell is involved: a command is a list of words in which these stand for paths and names:
//!
//! | word | meaning |
//! |---|---|
//! | `{W}` | the working tree, also the current directory |
//! | `{R}` | a place for a repository beside it |
//! | `{D}` | a new directory to check out to, not there yet |
//! | `{N}` | number of the commit, from 1 |
//! | `{B}` | a branch |
//! | `{DMV}` | the `dmv` program |

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::runner::CommandLine;

/// A command's words.
pub type Words = &'static [&'static str];

/// One tool: how to call it, and what to know when reading its numbers.
pub struct Peer {
    /// Name of its row.
    pub name: &'static str,
    /// What the row stands for.
    pub note: &'static str,
    /// The program (`{DMV}` for our own) and the arguments that print its version.
    pub version: Words,
    /// A command that succeeds if the installed version can do what the row needs.
    pub needs: Option<Words>,
    /// Where its repository lies.
    pub repository: &'static str,
    /// Its own environment, beside the common one.
    pub env: &'static [(&'static str, &'static str)],
    /// Makes a repository; not part of any table.
    pub init: &'static [Words],
    /// Commits everything in the working tree.
    pub commit: &'static [Words],
    /// An exit code of a commit, other than 0, that is success too.
    pub commit_also_ok: Option<i32>,
    /// Lists changes, for tools that can.
    pub status: Option<Words>,
    /// Writes the latest commit to a new directory.
    pub checkout: &'static [Words],
    /// Whether that directory has to be there and be the current one.
    pub checkout_inside: bool,
    /// How it branches, for tools that do.
    pub branching: Option<BranchCommands>,
    /// Run untimed after a checkout; its failure does not matter.
    pub after_checkout: Option<Words>,
    /// Whether its commits are on disk when the command ends: they call fsync on their data, so
    /// the flush afterwards is not charged to them.
    pub durable_commits: bool,
    /// Whether it keeps empty directories.
    pub empty_directories: bool,
    /// Whether a file that changed a little takes its whole length again.
    pub stores_whole_files: bool,
    /// The largest file it is given, because it holds files in memory whole.
    pub largest_file: Option<u64>,
}

/// The commands of a tool's branches.
pub struct BranchCommands {
    /// Makes `{B}` where the worktree is, and goes on it.
    pub start: &'static [Words],
    /// Makes the worktree as `{B}` has it.
    pub switch: &'static [Words],
    /// Merges `{B}` into what the worktree is on, and commits that.
    pub merge: &'static [Words],
}

/// A row with nothing special about it, to be completed with `..`.
const PLAIN: Peer = Peer {
    name: "",
    note: "",
    version: &[],
    needs: None,
    repository: "{R}",
    env: &[],
    init: &[],
    commit: &[],
    commit_also_ok: None,
    status: None,
    checkout: &[],
    checkout_inside: false,
    branching: None,
    after_checkout: None,
    durable_commits: false,
    empty_directories: true,
    stores_whole_files: false,
    largest_file: None,
};

const GIT: Peer = Peer {
    name: "git",
    note: "defaults, without background gc; checkout is `git worktree add`",
    version: &["git", "--version"],
    repository: "{W}/.git",
    env: &[
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "n"),
        ("GIT_AUTHOR_EMAIL", "n@example.org"),
        ("GIT_COMMITTER_NAME", "n"),
        ("GIT_COMMITTER_EMAIL", "n@example.org"),
    ],
    init: &[
        &["git", "init", "-q"],
        &["git", "config", "gc.auto", "0"],
        &["git", "config", "maintenance.auto", "false"],
    ],
    // --force: files that a .gitignore in the data names are content here.
    commit: &[
        &["git", "add", "--all", "--force"],
        &["git", "commit", "-q", "--allow-empty", "-m", "c{N}"],
    ],
    status: Some(&["git", "status", "--porcelain"]),
    checkout: &[&["git", "worktree", "add", "-q", "--detach", "{D}", "HEAD"]],
    branching: Some(BranchCommands {
        start: &[&["git", "checkout", "-q", "-b", "{B}"]],
        switch: &[&["git", "checkout", "-q", "{B}"]],
        merge: &[&["git", "merge", "-q", "--no-edit", "{B}"]],
    }),
    after_checkout: Some(&["git", "worktree", "prune"]),
    empty_directories: false,
    stores_whole_files: true,
    ..PLAIN
};

const DMV: Peer = Peer {
    name: "dmv",
    note: "checkout is `dmv export`",
    version: &["{DMV}", "-V"],
    repository: "{W}/.dmv",
    init: &[&["{DMV}", "init", "{W}"]],
    branching: Some(BranchCommands {
        start: &[
            &["{DMV}", "-C", "{W}", "branch", "-q", "{B}"],
            &["{DMV}", "-C", "{W}", "checkout", "-q", "{B}"],
        ],
        switch: &[&["{DMV}", "-C", "{W}", "checkout", "-q", "{B}"]],
        merge: &[&["{DMV}", "-C", "{W}", "merge", "-q", "{B}"]],
    }),
    commit: &[&["{DMV}", "-C", "{W}", "commit", "-q", "-m", "c{N}"]],
    status: Some(&["{DMV}", "-C", "{W}", "status"]),
    checkout: &[&["{DMV}", "-C", "{W}", "export", "@", "--to", "{D}"]],
    durable_commits: true,
    ..PLAIN
};

/// Every tool, in the order of the tables. The first is what ratios are formed to.
pub const PEERS: &[Peer] = &[
    Peer {
        name: "cp",
        note: "`cp -a` of the whole tree for every commit",
        version: &["cp", "--version"],
        init: &[&["mkdir", "{R}"]],
        commit: &[&["cp", "-a", "{W}", "{R}/c{N}"]],
        checkout: &[&["cp", "-a", "{R}/c{N}", "{D}"]],
        stores_whole_files: true,
        ..PLAIN
    },
    GIT,
    Peer {
        name: "git0",
        note: "no compression, bigFileThreshold=1m, feature.manyFiles, checkout.workers=2",
        init: &[
            &["git", "init", "-q"],
            &["git", "config", "gc.auto", "0"],
            &["git", "config", "maintenance.auto", "false"],
            &["git", "config", "core.compression", "0"],
            &["git", "config", "core.looseCompression", "0"],
            &["git", "config", "core.bigFileThreshold", "1m"],
            &["git", "config", "feature.manyFiles", "true"],
            &["git", "config", "checkout.workers", "2"],
        ],
        ..GIT
    },
    Peer {
        name: "hg",
        note: "defaults; checkout is `hg archive`",
        version: &["hg", "--version", "-q"],
        repository: "{W}/.hg",
        env: &[("HGRCPATH", ""), ("HGPLAIN", "1"), ("HGUSER", "n")],
        init: &[&["hg", "init"]],
        commit: &[
            &["hg", "addremove", "-q"],
            &["hg", "commit", "-q", "-m", "c{N}"],
        ],
        commit_also_ok: Some(1),
        branching: Some(BranchCommands {
            start: &[&["hg", "branch", "-q", "{B}"]],
            switch: &[&["hg", "update", "-q", "{B}"]],
            merge: &[
                &["hg", "merge", "-q", "{B}"],
                &["hg", "commit", "-q", "-m", "merge"],
            ],
        }),
        status: Some(&["hg", "status"]),
        // Without the setting the archive has one more file, which describes it.
        checkout: &[&["hg", "archive", "--config", "ui.archivemeta=false", "{D}"]],
        empty_directories: false,
        // About four bytes of memory for each of the file.
        largest_file: Some(2 << 30),
        ..PLAIN
    },
    Peer {
        name: "bup",
        note: "defaults: zlib -1, chunks of 8 KiB in git packs",
        version: &["bup", "--version"],
        env: &[("BUP_DIR", "{R}")],
        init: &[&["bup", "init"]],
        commit: &[
            &["bup", "index", "{W}"],
            &["bup", "save", "-q", "-n", "main", "--strip", "{W}"],
        ],
        checkout: &[&["bup", "restore", "-q", "-C", "{D}", "main/latest/."]],
        durable_commits: true,
        ..PLAIN
    },
    Peer {
        name: "borg",
        note: "no encryption, otherwise defaults (lz4)",
        version: &["borg", "--version"],
        env: &[
            ("BORG_BASE_DIR", "{R}.base"),
            ("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes"),
        ],
        init: &[&["borg", "init", "--encryption=none", "{R}"]],
        commit: &[&["borg", "create", "{R}::c{N}", "."]],
        checkout: &[&["borg", "extract", "{R}::c{N}"]],
        checkout_inside: true,
        durable_commits: true,
        ..PLAIN
    },
    Peer {
        name: "restic",
        note: "defaults; always encrypts",
        version: &["restic", "version"],
        env: &[("RESTIC_PASSWORD", "x"), ("RESTIC_CACHE_DIR", "{R}.cache")],
        init: &[&["restic", "-q", "-r", "{R}", "init"]],
        commit: &[&["restic", "-q", "-r", "{R}", "backup", "."]],
        checkout: &[&[
            "restic", "-q", "-r", "{R}", "restore", "latest", "--target", "{D}",
        ]],
        durable_commits: true,
        ..PLAIN
    },
    Peer {
        name: "kopia",
        note: "defaults: encrypts, no compression",
        version: &["kopia", "--version"],
        env: &[
            ("KOPIA_PASSWORD", "x"),
            ("KOPIA_CONFIG_PATH", "{R}.config"),
            ("KOPIA_CACHE_DIRECTORY", "{R}.cache"),
            ("KOPIA_CHECK_FOR_UPDATES", "false"),
        ],
        init: &[&[
            "kopia",
            "repository",
            "create",
            "filesystem",
            "--path",
            "{R}",
            "--cache-directory",
            "{R}.cache",
        ]],
        commit: &[&["kopia", "snapshot", "create", "--no-progress", "{W}"]],
        checkout: &[&[
            "kopia",
            "snapshot",
            "restore",
            "--no-progress",
            "{W}",
            "{D}",
        ]],
        ..PLAIN
    },
    Peer {
        name: "casync",
        note: "chunks of 64 KiB, one file per chunk; unix metadata",
        version: &["casync", "--version"],
        init: &[&["mkdir", "{R}"]],
        commit: &[&[
            "casync",
            "make",
            "--with=unix",
            "--store={R}/store.castr",
            "{R}/c{N}.caidx",
            "{W}",
        ]],
        checkout: &[&[
            "casync",
            "extract",
            "--with=unix",
            "--store={R}/store.castr",
            "{R}/c{N}.caidx",
            "{D}",
        ]],
        ..PLAIN
    },
    DMV,
    Peer {
        name: "dmv-worktree",
        note: "checkout is `dmv worktree add`",
        needs: Some(&["{DMV}", "worktree", "--help"]),
        checkout: &[&["{DMV}", "-C", "{W}", "worktree", "add", "{D}"]],
        ..DMV
    },
];

/// The tool called `name`.
pub fn peer(name: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.name == name)
}

/// The paths of one session, for filling in commands.
#[derive(Clone, Debug)]
pub struct Places {
    /// `{W}`.
    pub work: PathBuf,
    /// `{R}`.
    pub repository: PathBuf,
    /// `{D}`.
    pub destination: PathBuf,
    /// `{N}`.
    pub commit: u32,
    /// `{B}`.
    pub branch: &'static str,
    /// `{DMV}`.
    pub dmv: PathBuf,
}

impl Places {
    /// `text` with every `{…}` filled in. A path that is not UTF-8 fails.
    pub fn fill(&self, text: &str) -> Result<String> {
        let mut out = text.replace("{N}", &self.commit.to_string());
        out = out.replace("{B}", self.branch);
        for (word, path) in [
            ("{W}", &self.work),
            ("{R}", &self.repository),
            ("{D}", &self.destination),
            ("{DMV}", &self.dmv),
        ] {
            if out.contains(word) {
                let path = path.to_str();
                out = out.replace(word, path.context("a scratch path that is not UTF-8")?);
            }
        }
        Ok(out)
    }

    /// A table entry's commands, ready to run.
    pub fn commands(&self, table: &[Words], also_ok: Option<i32>) -> Result<Vec<CommandLine>> {
        let line = |words: &Words| -> Result<CommandLine> {
            let argv = words.iter().map(|w| self.fill(w)).collect::<Result<_>>()?;
            Ok(CommandLine { argv, also_ok })
        };
        table.iter().map(line).collect()
    }
}

/// What is installed of a tool.
pub enum Installation {
    /// Usable; the first line that it says of its version.
    Version(String),
    /// Not usable, and why.
    Missing(String),
}

/// Looks for `peer` and asks for its version; `dmv` is where our own program should be.
pub fn find(peer: &Peer, dmv: &Path) -> Installation {
    let Some((program, arguments)) = peer.version.split_first() else {
        return Installation::Missing("no command in the table".into());
    };
    let program = if *program == "{DMV}" {
        dmv
    } else {
        Path::new(program)
    };
    let shown = program.display();
    let Ok(output) = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
    else {
        return Installation::Missing(format!("{shown} not installed"));
    };
    if !output.status.success() {
        return Installation::Missing(format!("{shown}: {}", output.status));
    }
    if let Some(needs) = peer.needs {
        let able = Command::new(program)
            .args(&needs[1..])
            .stdin(Stdio::null())
            .output();
        if !able.is_ok_and(|o| o.status.success()) {
            return Installation::Missing(format!("{shown} has no `{}`", needs[1]));
        }
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(first) => Installation::Version(first.to_owned()),
        None => Installation::Missing(format!("{shown} does not tell its version")),
    }
}

/// Where our own program is unless the user says: beside this program, else found in `PATH`.
pub fn default_dmv() -> PathBuf {
    let beside = env::current_exe()
        .ok()
        .map(|path| path.with_file_name("dmv"));
    beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from("dmv"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places {
            work: "/w".into(),
            repository: "/r".into(),
            destination: "/d".into(),
            commit: 3,
            branch: "b",
            dmv: "/bin/dmv".into(),
        }
    }

    #[test]
    fn every_word_of_the_table_is_filled_in() -> Result<()> {
        for peer in PEERS {
            let mut steps = [peer.init, peer.commit, peer.checkout].concat();
            if let Some(branching) = &peer.branching {
                steps.extend([branching.start, branching.switch, branching.merge].concat());
            }
            for command in places().commands(&steps, None)? {
                assert!(!command.argv.is_empty());
                assert!(
                    command.argv.iter().all(|w| !w.contains(['{', '}'])),
                    "{command:?}"
                );
            }
            assert!(
                !peer.version.is_empty() && !peer.commit.is_empty(),
                "{}",
                peer.name
            );
        }
        Ok(())
    }

    #[test]
    fn names_are_unique_and_cp_is_first() {
        let names: Vec<_> = PEERS.iter().map(|peer| peer.name).collect();
        assert!(
            names
                .iter()
                .all(|n| names.iter().filter(|m| *m == n).count() == 1)
        );
        assert_eq!(names[0], "cp");
        assert!(peer("git0").is_some() && peer("nothing").is_none());
    }

    #[test]
    fn missing_program_is_told() {
        let found = find(&DMV, Path::new("/nonexistent/dmv"));
        assert!(matches!(found, Installation::Missing(why) if why.contains("not installed")));
    }
}
