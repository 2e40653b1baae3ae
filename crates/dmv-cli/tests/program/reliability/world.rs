//! The repositories that each trial starts from, made once by the program itself.

use crate::place::{Outcome, temp_dir};
use dmv_random::{Rng, number};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Runs what it is asked to run on this machine.
const SSH: &str = r#"#!/bin/sh
while [ "$1" != "--" ]; do shift; done
exec sh -c "$3"
"#;

/// A directory with a template and the copy that a trial works on.
///
/// The copy always has the same path, so that absolute paths in it stay true.
pub struct World {
    /// The template, and what trials write down.
    base: PathBuf,
    /// The copy.
    now: PathBuf,
    /// Commits of `film` whose files lie beside the template, as they came out of it.
    commits: Vec<String>,
    _dir: TempDir,
}

/// A key of another device: the first of RFC 8032, section 7.1.
const LAPTOP: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

impl World {
    /// A world in memory where there is a file system for that.
    pub fn new() -> Outcome<World> {
        let dir = temp_dir()?;
        let now = dir.path().join("now");
        World::at(dir, now)
    }

    /// A world whose trials run in a place that may break.
    pub fn on(now: &Path) -> Outcome<World> {
        World::at(temp_dir()?, now.to_owned())
    }

    fn at(dir: TempDir, now: PathBuf) -> Outcome<World> {
        let mut world = World {
            base: dir.path().to_owned(),
            now,
            commits: Vec::new(),
            _dir: dir,
        };
        fs::create_dir_all(world.now().join("home"))?;
        world.build()?;
        world.commits = world.remember()?;
        copy(&world.now(), &world.template())?;
        Ok(world)
    }

    /// The copy that a trial works on.
    pub fn now(&self) -> PathBuf {
        self.now.clone()
    }

    fn template(&self) -> PathBuf {
        self.base.join("template")
    }

    /// A place beside the copy.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// The environment of the program: nothing but a home and an ssh that stays on this machine.
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let home = self.now().join("home");
        vec![
            ("PATH", std::env::var_os("PATH").unwrap_or_default()),
            ("HOME", home.clone().into()),
            ("XDG_CONFIG_HOME", home.join("config").into()),
            ("USER", "ada".into()),
            ("NO_COLOR", "1".into()),
            ("DMV_SSH_COMMAND", home.join("ssh").into()),
            ("DMV_SSH_REMOTE", env!("CARGO_BIN_EXE_dmv").into()),
        ]
    }

    /// A program in the copy, with that environment.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.now())
            .env_clear()
            .envs(self.environment())
            .stdin(Stdio::null());
        command
    }

    /// The program in the copy.
    pub fn dmv(&self, args: &[&str]) -> Command {
        self.command(env!("CARGO_BIN_EXE_dmv"), args)
    }

    /// Runs the program to its end: exit code, output, what it said on the side.
    pub fn run(&self, args: &[&str]) -> Outcome<(Option<i32>, String, String)> {
        let output = self.dmv(args).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        ))
    }

    fn ok(&self, args: &[&str]) -> Outcome {
        self.ends(0, args)
    }

    fn ends(&self, exit: i32, args: &[&str]) -> Outcome {
        let (code, _, said) = self.run(args)?;
        if code == Some(exit) {
            Ok(())
        } else {
            Err(format!("dmv {args:?} ended with {code:?}: {said}").into())
        }
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> Outcome {
        let path = self.now().join(path);
        fs::create_dir_all(path.parent().ok_or("no parent")?)?;
        Ok(fs::write(path, content)?)
    }

    /// Puts the named parts of the template (and the home) where trials work.
    pub fn reset(&self, parts: &[&str]) -> Outcome {
        let now = self.now();
        if now.exists() {
            fs::remove_dir_all(&now)?;
        }
        fs::create_dir(&now)?;
        for part in parts.iter().chain(&["home"]) {
            copy(&self.template().join(part), &now.join(part))?;
        }
        Ok(())
    }

    /// A commit of `film`, and the directory that holds its files.
    pub fn commit(&self, n: u64) -> (&str, PathBuf) {
        let id = &self.commits[n as usize % self.commits.len()];
        (id, self.base.join("known").join(id))
    }

    // ---- The template.

    /// Writes down what every commit of `film` holds.
    fn remember(&self) -> Outcome<Vec<String>> {
        let mut commits = Vec::new();
        for rev in ["v1", "main~1", "main", "other", "side", "clash", "old"] {
            let (_, record, _) = self.run(&["-C", "film", "log", "-n", "1", "--json", rev])?;
            let record: serde_json::Value = serde_json::from_str(&record)?;
            let id = record["id"]
                .as_str()
                .ok_or("a commit has an id")?
                .to_owned();
            let to = self.base.join("known").join(&id);
            let to = to.to_str().ok_or("a path of ours is text")?;
            self.ok(&["-C", "film", "export", rev, "--to", to])?;
            commits.push(id);
        }
        Ok(commits)
    }

    fn build(&self) -> Outcome {
        let ssh = self.now().join("home/ssh");
        fs::write(&ssh, SSH)?;
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755))?;
        self.ok(&["id"])?;
        self.film()?;
        self.others()?;
        // Uncommitted work, which no command may lose unasked.
        self.write("film/dir/h", "edited, not committed")?;
        self.write("film/own.txt", "not tracked")?;
        // From 4 MiB on, and with TMPDIR on XFS or btrfs, its commit shares blocks.
        let own = number("DMV_OWN_BYTES", 300_000) as usize;
        self.write("film/own.bin", Rng::new(7).bytes(own))?;
        self.write("film/noise.log", "ignored")?;
        self.write("part/dir/h", "edited in a part")?;
        self.write("lean/dir/h", "edited where files are the only copy")?;
        Ok(())
    }

    /// Four branches over three commits, so that everything there is to merge is there.
    fn film(&self) -> Outcome {
        let mut rng = Rng::new(5);
        let mut big = rng.bytes(700_000);
        self.ok(&["init", "film"])?;
        self.write("film/.dmvignore", "*.log\n")?;
        self.write("film/text.txt", "one\ntwo\nthree\n")?;
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            self.write(&format!("film/dir/{name}"), format!("{name} ").repeat(200))?;
        }
        self.write("film/sub/deep/x", "x")?;
        self.write("film/place", "a file here, a directory there")?;
        self.write("film/big.bin", &big)?;
        self.write("film/run.sh", "#!/bin/sh\n")?;
        let film = self.now().join("film");
        fs::set_permissions(film.join("run.sh"), fs::Permissions::from_mode(0o755))?;
        std::os::unix::fs::symlink("dir/a", film.join("link"))?;
        self.film_does(&[&["commit", "-m", "first"], &["tag", "v1"]])?;
        self.film_does(&[
            &["branch", "other"],
            &["branch", "old"],
            &["checkout", "other"],
        ])?;
        for name in ["a", "b", "c", "d"] {
            self.write(&format!("film/dir/{name}"), format!("other {name}"))?;
        }
        fs::remove_file(film.join("dir/f"))?;
        fs::remove_file(film.join("place"))?;
        self.write("film/place/x", "a directory")?;
        for n in 0..12 {
            self.write(&format!("film/new/{n}"), rng.bytes(5000))?;
        }
        self.film_does(&[&["commit", "-m", "other"], &["checkout", "main"]])?;
        big[350_000] ^= 1;
        self.write("film/big.bin", &big)?;
        self.film_does(&[
            &["commit", "-m", "second"],
            &["branch", "side"],
            &["branch", "clash"],
        ])?;
        self.film_does(&[&["checkout", "side"]])?;
        self.write("film/side.txt", "side")?;
        self.write("film/sub/deep/x", "from the side")?;
        self.film_does(&[&["commit", "-m", "side"], &["checkout", "clash"]])?;
        self.write("film/text.txt", "one\nclash\nthree\n")?;
        self.film_does(&[&["commit", "-m", "clash"], &["checkout", "main"]])
    }

    fn film_does(&self, commands: &[&[&str]]) -> Outcome {
        for args in commands {
            self.ok(&[&["-C", "film"], *args].concat())?;
        }
        Ok(())
    }

    /// What stands around it: a colleague, a disk, a part, and three in trouble.
    fn others(&self) -> Outcome {
        self.ok(&["clone", "film", "near"])?;
        self.ok(&["clone", "--bare", "film", "nas.dmv"])?;
        self.write("near/near.txt", "from near")?;
        self.ok(&["-C", "near", "commit", "-m", "near"])?;
        self.ok(&["-C", "near", "branch", "topic"])?;
        // Something to do again.
        self.ok(&["-C", "near", "tag", "again"])?;
        self.ok(&["-C", "near", "undo"])?;
        self.ok(&["-C", "near", "remote", "add", "far", "ssh://host/~/../film"])?;
        self.film_does(&[
            &["trust", LAPTOP, "--name", "laptop"],
            &["remote", "add", "near", "../near"],
            &["remote", "add", "nas", "../nas.dmv"],
            &["worktree", "add", "../film2", "old"],
        ])?;
        self.write("film2/old.txt", "old")?;
        // A change that fits, and one that does not.
        self.write("film/sub/deep/x", "put aside")?;
        self.write("film/aside.txt", "put aside")?;
        self.film_does(&[&["stash"]])?;
        self.write("film/text.txt", "one\naside\nthree\n")?;
        self.film_does(&[&["stash"]])?;
        self.ok(&["-C", "film2", "commit", "-m", "old"])?;
        self.write("film/text.txt", "one\nmain\nthree\n")?;
        self.film_does(&[&["commit", "-m", "third"]])?;
        self.ok(&["clone", "--subset", "dir", "--", "film", "part"])?;
        self.ok(&["clone", "film", "clash"])?;
        self.ends(4, &["-C", "clash", "merge", "origin/clash"])?;
        self.ok(&["clone", "--lean", "film", "lean"])?;
        self.ok(&["clone", "film", "claimed"])?;
        self.ok(&["-C", "claimed", "claim", "big.bin"])?;
        self.ok(&["clone", "film", "hunt"])?;
        self.ok(&["-C", "hunt", "bisect", "start", "main", "v1"])?;
        self.ok(&["clone", "--copy", "film", "hurt"])?;
        self.hurt()?;
        self.kept()?;
        self.ok(&["clone", "film", "lost"])?;
        for name in ["refs.db", "refs.db-wal", "refs.db-shm"] {
            let _ = fs::remove_file(self.now().join("lost/.dmv").join(name));
        }
        Ok(())
    }

    /// Old versions of files that a rule gives up and a disk keeps.
    fn kept(&self) -> Outcome {
        self.ok(&["init", "kept"])?;
        for n in 0..4 {
            self.write("kept/render.exr", Rng::new(n).bytes(200_000))?;
            self.write("kept/note", format!("version {n}"))?;
            self.ok(&["-C", "kept", "commit", "-m", &format!("version {n}")])?;
        }
        self.ok(&["clone", "--bare", "kept", "disk.dmv"])?;
        self.ok(&["-C", "kept", "remote", "add", "disk", "../disk.dmv"])?;
        self.ok(&["-C", "kept", "keep", "set", "*.exr", "last:2"])
    }

    /// A flipped bit in the middle of the largest pack.
    fn hurt(&self) -> Outcome {
        let mut packs = Vec::new();
        for entry in fs::read_dir(self.now().join("hurt/.dmv/packs"))? {
            let entry = entry?;
            packs.push((entry.metadata()?.len(), entry.path()));
        }
        let (len, path) = packs.into_iter().max().ok_or("no packs")?;
        let mut bytes = fs::read(&path)?;
        bytes[len as usize / 2] ^= 4;
        Ok(fs::write(path, bytes)?)
    }
}

fn copy(from: &Path, to: &Path) -> Outcome {
    let meta = fs::symlink_metadata(from)?;
    if meta.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    } else if meta.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)?;
    } else {
        fs::copy(from, to)?;
    }
    Ok(())
}
