//! `dmv web`

use crate::config::hook::Event;
use crate::context::CommandUse;
use crate::globals::{Color, Globals};
use crate::on_demand::{ops_failure, remote_failure};
use crate::partial_repository::told_slice;
use crate::prelude::*;
use crate::print::pull::default_integrate;
use crate::print::{claims, tags};
use crate::{
    budget, claim_request, hooks, ownership, partial_repository, peers, print, signers,
    unfinished_clone,
};
#[cfg(feature = "store")]
use dmv_bucket::ops::{BucketCaller, CallerBuckets};
#[cfg(feature = "store")]
use dmv_bucket::store::{Settings, probe::TestCost};
use dmv_core::repo::{
    ClaimInfo, ClaimOptions, ClaimTable, KnownSigners, OperationRequest, PlaceError, RefChange,
    RepositoryLocation, Who, Whose, WorktreeSettings,
};
#[cfg(feature = "store")]
use dmv_net::ops::Buckets;
use dmv_net::ops::{
    Caller, ComingPush, Integrate, OpsError, PullOptions, PullReport, PushReport, Remote, Remotes,
};
use dmv_net::session::NetError;
#[cfg(feature = "store")]
use dmv_net::transport::BucketAddress;
use dmv_net::transport::{Purpose, Reach, Url};
use dmv_preview::{Cache, Limits, Maker, WorkerCommand};
use dmv_web::{
    ClaimReport, ClaimWish, DavLogin, Options, Program, Server, ShownFailure, SignatureWords,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How large the cache of previews may become.
const CACHE_BYTES: u64 = 512 << 20;

/// Show history, files and conflicts in a browser
///
/// Prints an address and serves pages of this repository until you press Ctrl-C. Only this machine can
/// connect, and only the browser that opens the address first: it works once.
///
/// The pages show pictures, compare versions, resolve conflicts, commit, discard, undo and claim. They talk
/// to a remote only when you press a button that sends, gets, claims or looks for news.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv web\n  dmv web --open\n  dmv web --port 8080 --read-only\n  dmv web --dav\n\n\
                        From another machine: ssh -L 8080:127.0.0.1:8080 HOST"
)]
pub struct Args {
    /// Listen at this port [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the address in your browser
    #[arg(long)]
    open: bool,
    /// Refuse all changes
    #[arg(long)]
    read_only: bool,
    /// Also let programs for WebDAV read commits: file managers, players, rclone. Prints how they log in
    #[arg(long)]
    dav: bool,
}

impl Args {
    /// How the command uses the repository: the pages change it unless that is refused.
    pub fn command_use(&self) -> CommandUse {
        if self.read_only {
            CommandUse::Reads
        } else {
            CommandUse::Changes
        }
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    // What is wrong with the repository is said here, and not in a browser.
    let repo = context.repo()?;
    let options = Options {
        port: args.port,
        read_only: args.read_only || repo.whose() == Whose::Foreign,
        dav: args.dav,
    };
    drop(repo);
    let desk = Desk::new(&context.globals);
    let server =
        Server::bind(options, desk, previews()).map_err(|e| cannot_listen(args.port, &e))?;
    let url = server.address();
    let _interruptible = context.interruptible();
    let dav = server.dav_login();
    if context.ui.is_json() {
        let dav = dav.map(|login| {
            let DavLogin {
                url,
                user,
                password,
            } = login;
            object! { url: url, user: user, password: password }
        });
        context
            .ui
            .json(&object! { port: server.port()?, url: url, dav: dav })?;
    } else {
        writeln!(context.ui.out(), "{url}")?;
        if let Some(login) = dav {
            let (user, password) = (login.user, login.password);
            let out = &mut context.ui.out();
            writeln!(out, "{}  user {user}, password {password}", login.url)?;
        }
        let mode = if options.read_only { ", read-only" } else { "" };
        context.ui.note(format_args!(
            "open this address in a browser on this machine; it works once{mode}. Ctrl-C stops the server"
        ));
    }
    context.ui.out().flush()?;
    if args.open {
        open(context, &url);
    }
    let job = context.job.clone();
    server.run(move || job.is_cancelled())?;
    Ok(EXIT_OK)
}

fn cannot_listen(port: u16, e: &std::io::Error) -> Failure {
    let message = format!("cannot listen at 127.0.0.1:{port}: {e}");
    Failure::new("no-port", crate::failure::EXIT_OTHER, message).hint("dmv web, for a free port")
}

/// What makes previews: this program, started again for each file, with a cache in the user's
/// directory. Without a place for the cache there is none.
fn previews() -> Option<Maker> {
    let command = WorkerCommand {
        program: std::env::current_exe().ok()?,
        args: vec!["preview-worker".into()],
    };
    let dir = |name| std::env::var_os(name).filter(|dir| Path::new(dir).is_absolute());
    let caches = dir("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| Some(Path::new(&dir("HOME")?).join(".cache")));
    let cache = caches.map(|caches| Cache::new(caches.join("dmv/preview"), CACHE_BYTES));
    Some(Maker::new(command, Limits::default(), cache))
}

/// Opens the address with the program of the desktop.
fn open(context: &Context, url: &str) {
    let mut opener = Command::new("xdg-open");
    opener
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if opener.spawn().is_err() {
        context
            .ui
            .warn("xdg-open is not installed; open the address yourself");
    }
}

/// The program as the pages see it. Each question reads the settings again, so that they follow
/// changes as the commands do.
struct Desk {
    globals: Globals,
    /// The directory in which the program was started.
    dir: PathBuf,
}

impl Desk {
    fn new(globals: &Globals) -> Desk {
        Desk {
            dir: std::env::current_dir().unwrap_or_default(),
            globals: Globals {
                // Nothing is drawn on the terminal, and no user there is asked.
                color: Some(Color::Never),
                quiet: true,
                json: false,
                no_pager: true,
                ..globals.clone()
            },
        }
    }

    /// Stands in the directory of the start. If it was removed and made again, as a restore of a backup does, the
    /// process is still in the removed one.
    fn stand(&self) -> Result<(), ShownFailure> {
        if std::env::current_dir().is_ok() || std::env::set_current_dir(&self.dir).is_ok() {
            return Ok(());
        }
        Err(self.explain(PlaceError::NotFound(self.dir.clone()).into()))
    }

    fn context(&self, command: &str) -> Context {
        let words = ["web:", command].map(OsString::from);
        Context::of_a_page(self.globals.clone(), words.to_vec())
    }

    fn with<T>(
        &self,
        command: &str,
        work: impl FnOnce(&Context) -> Result<T, Failure>,
    ) -> Result<T, ShownFailure> {
        work(&self.context(command)).map_err(told)
    }
}

/// A failure in the words of the command.
fn told(failure: Failure) -> ShownFailure {
    ShownFailure {
        code: failure.code.to_owned(),
        exit: failure.exit,
        message: failure.message,
        hint: failure.hint.map(|hint| hint.to_string()),
    }
}

impl Program for Desk {
    fn find(&self) -> Result<(RepositoryLocation, Whose), ShownFailure> {
        self.stand()?;
        let named = self.globals.directory.is_some();
        ownership::find(named).map_err(|e| told(e.into()))
    }

    fn check(&self, repo: &Repo) -> Result<(), ShownFailure> {
        match repo.half_clone().map_err(|e| told(e.into()))? {
            Some(half) => Err(told(unfinished_clone::refuse(repo, &half))),
            None => self.with("", |context| context.tell(repo)),
        }
    }

    fn settings(&self) -> Result<WorktreeSettings, ShownFailure> {
        self.with("", Context::settings)
    }

    fn who(&self) -> Result<Who, ShownFailure> {
        self.with("", Context::who)
    }

    fn request(&self, command: &str) -> Result<OperationRequest, ShownFailure> {
        self.with(command, Context::request)
    }

    fn before_commit(&self, repo: &Repo, message: &str) -> Result<(), ShownFailure> {
        self.with("commit", |context| {
            hooks::ask(context, repo, Event::PreCommit, || {
                Ok(object! { branch: repo.head()?.branch(), message: message, amend: false })
            })
        })
    }

    fn after_commit(&self, repo: &Repo, branch: Option<&str>, id: ObjectId) {
        hooks::after_commit(&self.context("commit"), repo, branch, id);
    }

    fn signature(&self, repo: &Repo, id: &ObjectId) -> Result<SignatureWords, ShownFailure> {
        self.with("verify-commit", |context| {
            let known = signers::known_signers(context)?;
            let checker = repo.signature_checker(&known)?;
            let check = checker.check(id, &repo.read_commit(id)?)?;
            Ok(SignatureWords {
                state: check.state,
                told: signers::told(&check),
            })
        })
    }

    fn tag_signature(&self, repo: &Repo, name: &str) -> Result<SignatureWords, ShownFailure> {
        self.with("tag", |context| {
            let known = signers::known_signers(context)?;
            let checked = tags::checked(repo, &repo.signature_checker(&known)?, name)?;
            Ok(SignatureWords {
                state: checked.check.state,
                told: checked.words(),
            })
        })
    }

    fn claims(&self, repo: &Repo) -> Result<ClaimTable, ShownFailure> {
        self.with("claims", |context| {
            let mut table = repo.claims()?;
            claims::follow(context, repo, table.claims_mut())?;
            Ok(table)
        })
    }

    fn claim_words(&self, info: &ClaimInfo) -> String {
        claims::mark(info)
    }

    fn claim(&self, repo: &Repo, wish: &ClaimWish) -> Result<ClaimReport, ShownFailure> {
        let mut context = self.context("claim");
        context.job = wish.job.clone();
        let claim = |context: &Context| {
            let paths = vec![wish.path.clone()];
            let options = ClaimOptions {
                paths,
                reason: wish.reason.clone(),
                takes: wish.takes,
                request: context.request()?,
            };
            let failure = claim_request::claim_paths(context, repo, &options, None, false)?;
            claim_request::after_claim(context, repo, &options.paths)?;
            let claimed = claim_request::own_claims(repo, &options.paths)?;
            let claimed: Vec<String> = claimed.iter().map(claim_request::claimed_words).collect();
            Ok(ClaimReport {
                text: claimed.join("; "),
                more: failure.iter().map(claim_request::later).collect(),
            })
        };
        claim(&context).map_err(told)
    }

    fn release(&self, repo: &Repo, path: &RepoPath) -> Result<ClaimReport, ShownFailure> {
        self.with("release", |context| {
            let paths = std::slice::from_ref(path);
            Ok(ClaimReport {
                more: claim_request::release_paths(context, repo, paths)?,
                text: format!("released: {}", escape(path)),
            })
        })
    }

    fn caller(&self) -> Box<dyn Caller> {
        Box::new(PageCaller(self.context("get")))
    }

    fn remotes(&self) -> Result<Vec<(String, String)>, ShownFailure> {
        self.with("", |context| Ok(context.config()?.remotes()))
    }

    fn partial(&self, repo: &Repo) -> Option<String> {
        partial_repository::words(&told_slice(&self.context(""), repo))
    }

    fn explain(&self, e: RepoError) -> ShownFailure {
        told(budget::explained(&self.context(""), e.into()))
    }

    fn explain_ops(&self, e: OpsError) -> ShownFailure {
        let context = self.context("");
        told(budget::explained(&context, ops_failure(&context, e)))
    }

    fn explain_remote(&self, remote: &Remote, e: OpsError) -> ShownFailure {
        let context = self.context("");
        let failure = remote_failure(&context, remote, e);
        told(budget::explained(&context, failure))
    }

    fn integrate(&self) -> Result<Integrate, ShownFailure> {
        self.with("pull", default_integrate)
    }

    fn refused_push(
        &self,
        repo: &Repo,
        remote: &Remote,
        report: &PushReport,
    ) -> Option<ShownFailure> {
        print::push::refused(repo, remote, report).map(told)
    }

    fn refused_pull(
        &self,
        repo: &Repo,
        options: &PullOptions,
        report: &PullReport,
    ) -> Option<ShownFailure> {
        print::pull::refused(repo, options, report).map(told)
    }
}

/// Reaches the user's remotes, and shows nothing.
struct PageCaller(Context);

impl Caller for PageCaller {
    fn before_push(&self, push: &ComingPush<'_>) -> Result<(), NetError> {
        hooks::before_push(&self.0, push)
    }

    fn fetched(&self, repo: &Repo, remote: &Remote, moved: &[RefChange]) {
        hooks::after_fetch(&self.0, repo, remote, moved);
    }

    fn reach(&self, url: &Url, purpose: Purpose) -> Result<Reach, NetError> {
        let reach = peers::reach(&self.0, url, purpose);
        reach.map_err(|failure| NetError::Caller(Box::new(failure)))
    }

    fn remotes(&self) -> Result<Remotes, NetError> {
        let remotes = || -> Result<Remotes, Failure> {
            Ok(Remotes {
                list: peers::remotes(&self.0)?,
                offline: self.0.is_offline()?,
            })
        };
        remotes().map_err(|failure| NetError::Caller(Box::new(failure)))
    }

    fn known_signers(&self) -> Result<KnownSigners, NetError> {
        let known = signers::known_signers(&self.0);
        known.map_err(|failure| NetError::Caller(Box::new(failure)))
    }

    #[cfg(feature = "store")]
    fn buckets(&self) -> Option<Box<dyn Buckets + '_>> {
        Some(Box::new(CallerBuckets(self)))
    }
}

#[cfg(feature = "store")]
impl BucketCaller for PageCaller {
    fn store(&self, address: &BucketAddress) -> Result<Settings, NetError> {
        let settings = crate::bucket::settings(&self.0, address);
        settings.map_err(|failure| NetError::Caller(Box::new(failure)))
    }

    fn test_store(&self, address: &BucketAddress, is_first: bool) -> Result<(), NetError> {
        crate::bucket::test_before_writing(&self.0, address, is_first)
            .map_err(|failure| NetError::Caller(Box::new(failure)))
    }

    fn cost_of_test(&self, address: &BucketAddress, is_first: bool) -> Result<TestCost, NetError> {
        crate::bucket::cost_of_test(&self.0, address, is_first)
            .map_err(|failure| NetError::Caller(Box::new(failure)))
    }
}
