//! What every command gets: options, settings, output, the job that Ctrl-C stops.

use crate::config::{Config, LEAN};
use crate::failure::{EXIT_OTHER, EXIT_PERMISSION, Failure};
use crate::format::text::count;
use crate::globals::{Color, Globals};
use crate::ownership::{find, way_to_trust};
use crate::pager;
use crate::pager::PagedOutput;
use crate::progress::{InterruptionNote, Watch, interrupted, while_lent};
use crate::signing;
use crate::ui::{KeptOutput, Tone, Ui};
use dmv_core::escape::Argument;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::job::Job;
use dmv_core::object::commit::Commit;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::platform::{argument_bytes, bytes_of, host_name, login_name};
use dmv_core::refs::Timestamp;
use dmv_core::repo::{
    CONFIG_FILE, FilesError, Keep, MergeOptions, OperationRequest, PathState, Repo, RepoError,
    RepositoryLocation, RevisionError, SharedRepo, Who, Whose, WorktreeSettings,
};
use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// How a command uses the repository and the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandUse {
    /// It may change the repository.
    Changes,
    /// It only reads, so the repository may be another user's. The library refuses what would change one.
    Reads,
    /// It only reads, and a pager may show what it prints: that is no data for a file or a pipe, and the
    /// exit code is not the answer.
    Shows,
}

impl CommandUse {
    /// That of a command that only looks. No pager shows its output if its exit code is the answer.
    pub fn of_look(exit_code_answers: bool) -> CommandUse {
        if exit_code_answers {
            CommandUse::Reads
        } else {
            CommandUse::Shows
        }
    }
}

/// The surroundings of a command.
pub struct Context {
    /// Options of every command.
    pub globals: Globals,
    /// Where to print.
    pub ui: Ui,
    /// The work, to be watched or stopped.
    pub job: Arc<Job>,
    config: OnceCell<Config>,
    /// The directory that relative paths begin at.
    here: OnceCell<PathBuf>,
    /// The same from the root of the worktree. `None`: it is outside.
    here_in_root: OnceCell<Option<Vec<u8>>>,
    /// The name of the command.
    pub command: String,
    /// What was typed after the name of the program, with aliases replaced.
    typed: Vec<OsString>,
    /// Makes the description of the command line.
    program: Cell<fn() -> clap::Command>,
    /// Whether the command changes no repository.
    reads: Cell<bool>,
    /// Whether the user knows what the repository's file sets in vain.
    warned: Cell<bool>,
    /// Whether the user knows that a branch of this bare repository is behind.
    pub told_behind: Cell<bool>,
    /// The repository that all requests of a session use that only read.
    shared: Option<Arc<SharedRepo>>,
    /// The revisions of places that the user has named, for hints.
    pub revisions: RefCell<Vec<String>>,
    /// Remotes in object stores.
    #[cfg(feature = "store")]
    pub buckets: crate::store_options::Buckets,
}

impl Context {
    /// Decides on colours; everything else waits until it is asked for.
    pub fn new(globals: Globals, command: String, typed: Vec<OsString>) -> Context {
        let config = OnceCell::new();
        let color = globals
            .color
            .unwrap_or_else(|| color_setting(&config, globals.directory.is_some()));
        let mut context =
            Context::with_output(Ui::new(tone(&globals), color), globals, command, typed);
        context.config = config;
        context.warn_of_misplaced();
        context
    }

    fn with_output(ui: Ui, globals: Globals, command: String, typed: Vec<OsString>) -> Context {
        Context {
            ui,
            globals,
            job: Arc::new(Job::default()),
            config: OnceCell::new(),
            here: OnceCell::new(),
            here_in_root: OnceCell::new(),
            command,
            typed,
            program: Cell::new(clap::Command::default),
            reads: Cell::new(false),
            warned: Cell::new(false),
            told_behind: Cell::new(false),
            shared: None,
            revisions: RefCell::default(),
            #[cfg(feature = "store")]
            buckets: crate::store_options::Buckets::default(),
        }
    }

    /// Begins the command, which uses the repository and the terminal in this way. `program` makes the
    /// description of the command line.
    pub fn begin(&self, command_use: CommandUse, program: fn() -> clap::Command) {
        self.program.set(program);
        self.reads.set(command_use != CommandUse::Changes);
        if command_use == CommandUse::Shows {
            self.page();
        }
    }

    /// Returns whether the command is a request of another program, whose standard output has messages.
    pub fn is_request(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns whether the command changes no repository.
    pub fn only_reads(&self) -> bool {
        self.reads.get()
    }

    /// Returns the description of the command line.
    pub fn program(&self) -> clap::Command {
        self.program.get()()
    }

    /// The surroundings of a page of `dmv web`: as of a command, but nothing is said on the terminal.
    #[cfg(feature = "web")]
    pub fn of_a_page(globals: Globals, typed: Vec<OsString>) -> Context {
        let context = Context::new(globals, "web".to_owned(), typed);
        context.warned.set(true);
        context
    }

    /// The surroundings of a request of `dmv api`: as of a command, but `shared` has the repository, and `kept` takes
    /// the output.
    pub fn of_a_request(
        globals: Globals,
        typed: Vec<OsString>,
        shared: Arc<SharedRepo>,
        kept: KeptOutput,
    ) -> Context {
        let name = typed.first().map(|word| word.to_string_lossy());
        let name = name.unwrap_or_default().into_owned();
        let ui = Ui::keeping(kept, tone(&globals));
        let mut context = Context::with_output(ui, globals, name, typed);
        context.warned.set(true);
        context.shared = Some(shared);
        context
    }

    /// The surroundings of the same command as if it had been started in `dir`. The process goes there.
    ///
    /// # Errors
    ///
    /// In a session, where other requests are in the same directory.
    pub fn moved_to(&self, dir: &Path) -> Result<Context, Failure> {
        if self.shared.is_some() {
            return Err(Failure::usage(
                "an upload of a whole repository is no method of dmv api",
            ));
        }
        std::env::set_current_dir(dir).map_err(|e| Failure::file("enter", dir, &e))?;
        let mut globals = self.globals.clone();
        globals.directory = Some(dir.to_owned());
        Ok(Context::new(
            globals,
            self.command.clone(),
            self.typed.clone(),
        ))
    }

    /// Says once what the repository's file sets although only the user may.
    fn warn_of_misplaced(&self) {
        let Some(config) = self.config.get() else {
            return;
        };
        if !self.warned.replace(true) {
            for what in config.misplaced() {
                self.ui.warn(what);
            }
        }
    }

    /// Whether the user has named the directory that the command runs in.
    fn is_named(&self) -> bool {
        self.globals.directory.is_some()
    }

    /// Opens the repository around the current directory; refuses a half-made clone.
    pub fn repo(&self) -> Result<Arc<Repo>, Failure> {
        let repo = self.repo_as_it_is()?;
        match repo.half_clone()? {
            Some(half) => Err(crate::unfinished_clone::refuse(&repo, &half)),
            None => Ok(repo),
        }
    }

    /// Tells a repository what only the program knows: the settings, the user, and how dates and ids of Git are
    /// read. Commands and pages do the same with it.
    pub fn tell(&self, repo: &Repo) -> Result<(), Failure> {
        repo.read_dates_by(crate::date::until);
        #[cfg(feature = "git")]
        repo.read_git_ids_by(dmv_git::revision::commits_of);
        // Settings that cannot be read are reported where they are needed.
        let Ok(config) = self.config() else {
            return Ok(());
        };
        repo.name_remotes(config.remotes().into_iter().map(|(name, _)| name));
        repo.store().share_blocks(config.sharing()?);
        if config.is_set(LEAN)? {
            repo.be_lean();
        }
        signing::follow_settings(repo, config)?;
        #[cfg(feature = "quic")]
        if let Ok(name) = self.name() {
            repo.claim_as(Box::new(signing::DeviceClaimant::new(name)));
        }
        Ok(())
    }

    /// The same for commands that only look at it, or change settings: also a half-made clone. Another
    /// user's is opened for commands that only read.
    pub fn repo_as_it_is(&self) -> Result<Arc<Repo>, Failure> {
        let (place, whose) = find(self.is_named())?;
        if self.config.get().is_none()
            && let Ok(config) = config_at(&place, whose)
        {
            // Now that the place is known. What is wrong with the settings is reported where they are needed.
            let _ = self.config.set(config);
            self.warn_of_misplaced();
        }
        if whose == Whose::Foreign && !self.reads.get() {
            let dmv = place.dmv.display();
            let message =
                format!("{dmv} belongs to another user: you can read it, but not change it");
            let failure = Failure::new("foreign-owner", EXIT_PERMISSION, message);
            return Err(failure.hint(way_to_trust(&place.dmv)));
        }
        let repo = match &self.shared {
            Some(shared) if self.reads.get() => shared.get(place, whose)?,
            // What a command tells its repository, such as how to sign, is for this command alone.
            _ => Arc::new(Repo::open_as(place, whose)?),
        };
        self.tell(&repo)?;
        if repo.caught_up() > 0 {
            let what = count(repo.caught_up() as u64, "operation", "operations");
            self.ui.note(format_args!(
                "note: refs.db lacked the newest {what}; restored from the operation log"
            ));
        }
        if let Some(from) = repo.moved_from()?
            && !repo.refs().is_read_only()
        {
            // Only messages and other worktrees need to know: it is noted now or some other time.
            match repo.note_place(self.request()?) {
                Ok(false) => {}
                Ok(true) => self.ui.note(format_args!(
                    "note: this worktree has moved; it was at {} before",
                    from.display()
                )),
                Err(e) if self.ui.verbose() => {
                    self.ui.warn(format_args!(
                        "cannot record the new place of this worktree: {e}"
                    ));
                }
                Err(_) => {}
            }
        }
        Ok(repo)
    }

    /// The settings in force.
    pub fn config(&self) -> Result<&Config, Failure> {
        if self.config.get().is_none() {
            // A second load gives the same.
            let _ = self.config.set(load_config(self.is_named())?);
            self.warn_of_misplaced();
        }
        Ok(self.config.get().expect("it was set above"))
    }

    /// How files are taken in.
    pub fn settings(&self) -> Result<WorktreeSettings, Failure> {
        let config = self.config()?;
        if self.ui.verbose() {
            for name in config.unknown() {
                self.ui.note(format_args!("note: unknown setting {name}"));
            }
        }
        Ok(WorktreeSettings {
            git_ignore: config.is_set("ignore.git")?,
            global_ignore: config.path("ignore.file")?,
            portable_names: config.is_set("names.portable")?,
            properties: config.properties()?,
            keep: match (config.size("undo.keep-max-size")?, self.globals.yes) {
                (limit, true) => Keep::UpToOrNothing(limit),
                (limit, false) => Keep::UpTo(limit),
            },
            in_use: self.places(),
        })
    }

    /// The directories that the user is in: the shell's, and the one that `-C` names.
    fn places(&self) -> Vec<PathBuf> {
        let shell = self.globals.started_in.clone();
        shell.into_iter().chain([PathBuf::from(".")]).collect()
    }

    /// The user: as the settings say, else by login and host.
    pub fn who(&self) -> Result<Who, Failure> {
        let email = match self.config()?.value("user.email")? {
            Some(email) => email.trim().to_owned(),
            None => format!("{}@{}", login(), host_name()),
        };
        let name = self.name()?;
        Ok(Who { name, email })
    }

    /// The user's name.
    fn name(&self) -> Result<String, Failure> {
        // A blank name is no name.
        let name = self.config()?.value("user.name")?;
        let name = name.map(|name| name.trim().to_owned());
        Ok(name.filter(|name| !name.is_empty()).unwrap_or_else(login))
    }

    /// Whether the settings name the user.
    pub fn has_name(&self) -> Result<bool, Failure> {
        let name = self.config()?.value("user.name")?;
        Ok(name.is_some_and(|name| !name.trim().is_empty()))
    }

    /// For the operation log: now, the user, and the command as typed.
    pub fn request(&self) -> Result<OperationRequest, Failure> {
        let who = self.who()?;
        Ok(OperationRequest {
            time: now(),
            who: format!("{} <{}>", who.name, who.email),
            command: command_line(&self.typed),
        })
    }

    /// Returns the options of a merge, or of what makes commits as a merge does.
    pub fn merge_options(&self, message: String) -> Result<MergeOptions, Failure> {
        Ok(MergeOptions {
            message,
            committer: self.who()?,
            settings: self.settings()?,
            request: self.request()?,
        })
    }

    /// Shows progress of the job, and lets Ctrl-C stop it, until what is returned is dropped.
    pub fn watch(&self, doing: &'static str) -> Watch {
        let shown = !self.globals.quiet && !self.globals.json;
        let told = InterruptionNote {
            words: interrupted(&self.command),
            json: self.globals.json,
        };
        Watch::start(self.job.clone(), doing, shown, told)
    }

    /// Lets a pager show what the command prints, if a user at a terminal wants one.
    pub fn page(&self) {
        if self.globals.no_pager || self.globals.json || !self.ui.is_terminal() {
            return;
        }
        // Broken settings are reported where they are needed.
        if let Ok(Some(pager)) = self.config().and_then(pager::wanted) {
            let job = self.job.clone();
            self.ui.page(PagedOutput::new(
                pager,
                Box::new(move || while_lent(job.clone())),
            ));
        }
    }

    /// Whether no remote is to be asked for what is not here.
    pub fn is_offline(&self) -> Result<bool, Failure> {
        Ok(self.globals.offline || self.config()?.is_set("net.offline")?)
    }

    /// Lets Ctrl-C stop the job, without showing anything.
    pub fn interruptible(&self) -> Watch {
        Watch::patient(self.job.clone())
    }

    /// A path argument as a path of the repository. Without a worktree it is one already, and so is one that begins
    /// with `:/`.
    pub fn path(&self, repo: &Repo, arg: &OsStr) -> Result<RepoPath, Failure> {
        if arg.is_empty() {
            // A script has lost a name; the whole worktree was hardly meant.
            let failure = Failure::usage("an empty path names nothing");
            return Err(failure.hint("write . for the current directory"));
        }
        let given = argument_bytes(arg);
        let from_root = given.strip_prefix(b":/");
        let root = match (from_root, repo.worktree_root()) {
            (None, Some(root)) => root,
            (from_root, _) => {
                return Ok(Repo::parse_path(from_root.unwrap_or(&given))?);
            }
        };
        if let Some(here) = self.here_in(root)?
            && goes_down(arg)
        {
            let whole = match here {
                b"" => given,
                here => [here, b"/", &given].concat().into(),
            };
            return Ok(Repo::parse_path(&whole)?);
        }
        let Some(from_root) = from_root_of(root, &self.here()?.join(arg)) else {
            let message = format!(
                "'{}' is outside of the worktree at {}",
                escape(bytes_of(arg)),
                root.display()
            );
            return Err(Failure::new("outside-worktree", EXIT_OTHER, message));
        };
        Ok(Repo::parse_path(&argument_bytes(&from_root))?)
    }

    /// The current directory as a path from the worktree's root, if it is inside.
    fn here_in(&self, root: &Path) -> Result<Option<&[u8]>, Failure> {
        if self.here_in_root.get().is_none() {
            let here = from_root_of(root, self.here()?);
            let here = here.map(|here| argument_bytes(here.as_os_str()).into_owned());
            // A second look finds the same.
            let _ = self.here_in_root.set(here);
        }
        Ok(self.here_in_root.get().and_then(Option::as_deref))
    }

    /// The current directory.
    fn here(&self) -> Result<&Path, Failure> {
        if self.here.get().is_none() {
            let here = std::env::current_dir()
                .map_err(|e| Failure::file("find", Path::new("the current directory"), &e))?;
            // A second look finds the same.
            let _ = self.here.set(here);
        }
        Ok(self.here.get().expect("it was set above"))
    }

    /// A revision where `command` might have been given a path instead.
    pub fn revision(
        &self,
        repo: &Repo,
        command: &'static str,
        text: &str,
    ) -> Result<ObjectId, Failure> {
        repo.resolve(text).map_err(|e| {
            let unknown = matches!(e, RepoError::Revision(_));
            let failure = Failure::from(e);
            if unknown && std::fs::symlink_metadata(text).is_ok() {
                failure.hint(hint!("dmv {} -- {}", command, Argument::value(text)))
            } else {
                failure
            }
        })
    }

    /// A revision, or the current branch at a date: `2 days ago` for `@{2 days ago}`.
    pub fn revision_or_date(&self, repo: &Repo, text: &str) -> Result<ObjectId, Failure> {
        match repo.resolve(text) {
            Err(RepoError::Revision(RevisionError::Unknown(_)))
                if crate::date::until(text).is_ok() =>
            {
                Ok(repo.resolve(&format!("@{{{text}}}"))?)
            }
            done => Ok(done?),
        }
    }

    /// The two commits of `A..B`; none where the text is no such range. A side left out is what the
    /// worktree is on.
    pub fn range(
        &self,
        repo: &Repo,
        command: &'static str,
        text: &str,
    ) -> Result<Option<(ObjectId, ObjectId)>, Failure> {
        // No revision has two dots in it.
        let Some((old, new)) = text.split_once("..") else {
            return Ok(None);
        };
        let side = |text: &str| match text {
            "" => self.revision(repo, command, "@"),
            text => self.revision(repo, command, text),
        };
        Ok(Some((side(old)?, side(new)?)))
    }

    /// Path arguments for a command that only looks at the worktree: refuses what is outside of its subset
    /// and not there, and what is nowhere. `old` is a commit that it is compared with.
    pub fn paths_to_look_at(
        &self,
        repo: &Repo,
        args: &[OsString],
        old: Option<ObjectId>,
    ) -> Result<Vec<RepoPath>, Failure> {
        let paths = self.paths(repo, args)?;
        for path in repo.left_out(&paths, &self.settings()?)? {
            self.ui.note(format_args!("note: '{path}' is ignored"));
        }
        let old = old.map(|id| repo.read_commit(&id)).transpose()?;
        for path in &paths {
            let in_old = |commit: &Commit| repo.locate("", commit, path).is_ok();
            match repo.path_state(path)? {
                PathState::Unknown if old.as_ref().is_some_and(in_old) => {}
                PathState::Unknown => return Err(no_such_path(path.as_bytes())),
                PathState::Outside {
                    on_disk: false,
                    conflict: None,
                } => return Err(RepoError::Files(FilesError::OutsideSubset(path.clone())).into()),
                PathState::Known | PathState::Outside { .. } => {}
            }
        }
        Ok(paths)
    }

    /// Fails if a commit or a stash could take nothing from one of these paths.
    pub fn check_paths(&self, repo: &Repo, paths: &[RepoPath]) -> Result<(), Failure> {
        for path in paths {
            match repo.path_state(path)? {
                PathState::Known => {}
                // A choice counts without a file.
                PathState::Outside {
                    conflict: Some(true),
                    ..
                } => {}
                PathState::Outside { .. } => {
                    return Err(RepoError::Files(FilesError::OutsideSubset(path.clone())).into());
                }
                PathState::Unknown => return Err(no_such_path(path.as_bytes())),
            }
        }
        match repo.left_out(paths, &self.settings()?)?[..] {
            [] => Ok(()),
            [first, ..] => {
                let message = format!("'{first}' is ignored, so no commit or stash includes it");
                let failure = Failure::new("ignored", EXIT_OTHER, message);
                Err(failure.hint("change the rule that ignores it, in .dmvignore"))
            }
        }
    }

    /// Path arguments as paths of the repository.
    pub fn paths<'a, A: AsRef<OsStr> + ?Sized + 'a>(
        &self,
        repo: &Repo,
        args: impl IntoIterator<Item = &'a A>,
    ) -> Result<Vec<RepoPath>, Failure> {
        let paths = args.into_iter().map(|arg| self.path(repo, arg.as_ref()));
        paths.collect()
    }
}

/// The failure for a path that is nowhere.
pub fn no_such_path(path: &[u8]) -> Failure {
    let path = escape(path);
    let message = format!("'{path}' is neither in the worktree nor in its commit");
    Failure::new("no-such-path", EXIT_OTHER, message).hint("dmv status")
}

/// How much the options of a command let it say.
fn tone(globals: &Globals) -> Tone {
    Tone {
        quiet: globals.quiet,
        verbose: globals.verbose,
        json: globals.json,
    }
}

fn color_setting(config: &OnceCell<Config>, named: bool) -> Color {
    // A broken file is reported where it is needed.
    let Ok(loaded) = load_config(named) else {
        return Color::Auto;
    };
    let color = match loaded.value("color.ui").ok().flatten().as_deref() {
        Some("always") => Color::Always,
        Some("never") => Color::Never,
        _ => Color::Auto,
    };
    let _ = config.set(loaded);
    color
}

/// The settings; those of a repository only if it is the user's own or trusted.
pub fn load_config(named: bool) -> Result<Config, Failure> {
    match find(named) {
        Ok((place, whose)) => config_at(&place, whose),
        Err(_) => Config::load(None),
    }
}

fn config_at(place: &RepositoryLocation, whose: Whose) -> Result<Config, Failure> {
    let file = (whose == Whose::Own).then(|| place.dmv.join(CONFIG_FILE));
    Config::load(file.as_deref())
}

/// The name with which the user has logged in.
fn login() -> String {
    let names = ["USER", "LOGNAME", "USERNAME"];
    let mut told = names.iter().filter_map(|name| std::env::var(name).ok());
    told.find(|name| !name.is_empty())
        .unwrap_or_else(|| login_name().unwrap_or("unknown").to_owned())
}

/// A new temporary directory.
#[cfg(feature = "git")]
pub fn scratch() -> Result<tempfile::TempDir, Failure> {
    tempfile::tempdir().map_err(|e| Failure::file("create", &std::env::temp_dir(), &e))
}

/// Whether an argument names something below the directory that it is seen from, by its text alone.
fn goes_down(arg: &OsStr) -> bool {
    let is_down = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    Path::new(arg).components().all(is_down)
}

/// An absolute path as one from the worktree's root, if it is inside.
pub fn from_root_of(root: &Path, path: &Path) -> Option<PathBuf> {
    let path = tidy(path);
    let plain = path.strip_prefix(root).ok().map(Path::to_owned);
    plain.or_else(|| through_links(root, &path))
}

/// The path without `.` and `..`, by its text alone.
fn tidy(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// The path from `root` if symlinks on the way to either are followed. Only what is above the
/// worktree: inside, a symlink is a thing of its own.
fn through_links(root: &Path, path: &Path) -> Option<PathBuf> {
    let root = std::fs::canonicalize(root).ok()?;
    path.ancestors().find_map(|above| {
        let rest = path.strip_prefix(above).ok()?;
        let real = std::fs::canonicalize(above).ok()?;
        (real == root).then(|| rest.to_owned())
    })
}

/// The time, with the local clock's offset.
pub fn now() -> Timestamp {
    let now = jiff::Zoned::now();
    let (seconds, nanos) = (
        now.timestamp().as_second(),
        now.timestamp().subsec_nanosecond(),
    );
    Timestamp {
        seconds,
        nanos: u32::try_from(nanos).unwrap_or(0),
        tz_minutes: i16::try_from(now.offset().seconds() / 60).unwrap_or(0),
    }
}

/// The command as it could be typed again.
fn command_line(args: &[OsString]) -> String {
    let mut out = "dmv".to_owned();
    for arg in args {
        out.push(' ');
        out.push_str(&Argument::value(arg.as_encoded_bytes()).to_string());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_typed_again() {
        let args = ["commit", "-m", "it's done", ""].map(OsString::from);
        assert_eq!(command_line(&args), "dmv commit -m 'it'\\''s done' ''");
    }

    #[test]
    fn paths_are_tidied_by_their_text() {
        assert_eq!(tidy(Path::new("/a/./b/../c/")), Path::new("/a/c"));
        assert_eq!(tidy(Path::new("/../a")), Path::new("/a"));
    }
}
