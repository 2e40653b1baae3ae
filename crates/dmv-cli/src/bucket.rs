//! Remotes in object stores: their settings, what their requests cost, and whether their stores keep
//! what a bucket relies on.

use crate::config::REMOTES;
use crate::context::Context;
use crate::error::net_failure;
use crate::failure::{EXIT_REFUSED, Failure};
use crate::format::text::count;
use crate::store_options::Reach;
use dmv_bucket::files::{FileFailure, Files};
use dmv_bucket::format::{ROOT, Root};
use dmv_bucket::store::probe::{self, Bad, TestCost};
use dmv_bucket::store::{Settings, Store};
use dmv_bucket::work::cache::Cache;
use dmv_core::repo::{CONFIG_FILE, Repo};
use dmv_net::session::NetError;
use dmv_net::transport::{BucketAddress, Url};
use dmv_net::trouble::Trouble;
use std::sync::Arc;
use toml_edit::{Item, value};

/// What the settings of a remote note about its store: where it was tested, and when.
const TESTED: &str = "tested";

/// Takes the options of a command for the address that it was given with, before the first
/// connection.
pub fn take(context: &Context, url: &Url, reach: &Reach) -> Result<(), Failure> {
    reach.check(url)?;
    // A command has these options once.
    let _ = context.buckets.named.set(reach.clone());
    Ok(())
}

/// What the settings of a new remote note in addition to its address.
pub fn notes(context: &Context) -> Vec<(&'static str, toml_edit::Value)> {
    context
        .buckets
        .named
        .get()
        .map(Reach::noted)
        .unwrap_or_default()
}

/// The settings for the store at an address: those of the remote that has it.
pub fn settings(context: &Context, address: &BucketAddress) -> Result<Settings, Failure> {
    let config = context.config()?;
    let mut settings = Settings::new(config.seconds("net.patience")?);
    settings.counters = Arc::clone(&context.buckets.counters);
    let text = address.to_string();
    let remotes = config.remotes();
    if let Some((name, _)) = remotes.iter().find(|(_, known)| *known == text) {
        settings.endpoint = config.of_remote(name, "endpoint")?;
        settings.region = config.of_remote(name, "region")?;
        settings.profile = config.of_remote(name, "profile")?;
        settings.path_style = config.of_remote(name, "path-style")?.as_deref() == Some("true");
    }
    if let Some(named) = context.buckets.named.get() {
        settings.endpoint = named.endpoint.clone().or(settings.endpoint);
        settings.path_style |= named.path_style;
    }
    Ok(settings)
}

/// What a test of a store has found.
pub enum StoreTest {
    /// It keeps its promises.
    Good,
    /// This user may not write there, so it could not be tested.
    ReadOnly,
}

/// Tests the store of a bucket. Fails if it does not keep what a bucket relies on.
pub fn test(context: &Context, address: &BucketAddress) -> Result<StoreTest, Failure> {
    run_test(context, address, probe::check)
}

fn run_test(
    context: &Context,
    address: &BucketAddress,
    check: fn(&dyn Files) -> Result<(), Bad>,
) -> Result<StoreTest, Failure> {
    if address.scheme.is_web() {
        return Ok(StoreTest::ReadOnly);
    }
    let settings = settings(context, address)?;
    let store = Store::open(address, &settings)?;
    let watch = context.watch("testing the store");
    let tested = check(&store);
    drop(watch);
    match tested {
        Ok(()) => Ok(StoreTest::Good),
        Err(Bad::Trouble(Trouble::Denied(_))) => Ok(StoreTest::ReadOnly),
        Err(Bad::Broken(broken)) => {
            let message =
                format!("{address}: several people cannot write to this store safely: {broken}");
            let hint = "use a store with conditional writes, such as S3, R2, Ceph, MinIO or \
                        versitygw 1.8 without --sidecar";
            Err(Failure::new("unsafe-store", EXIT_REFUSED, message).hint(hint))
        }
        Err(Bad::Trouble(trouble)) => Err(net_failure(&NetError::Bucket {
            place: address.to_string(),
            trouble,
        })),
    }
}

/// Looks whether there is a repository at a web address.
pub fn look_at_mirror(context: &Context, address: &BucketAddress) -> Result<(), Failure> {
    let settings = settings(context, address)?;
    let store = Store::open(address, &settings)?;
    let trouble = match store.read_whole(ROOT, None) {
        Ok((bytes, _)) => match Root::decode(&bytes) {
            Ok(_) => return Ok(()),
            Err(e) if e.is_too_new() => Trouble::TooNew,
            Err(_) => Trouble::Page,
        },
        Err(FileFailure::Trouble(trouble)) => trouble,
        Err(_) => Trouble::NoRoot,
    };
    let place = address.to_string();
    Err(net_failure(&NetError::Bucket { place, trouble }))
}

/// What is noted of a test that went well: it counts for this address and endpoint.
pub fn verdict(context: &Context, address: &BucketAddress) -> Result<String, Failure> {
    let settings = settings(context, address)?;
    let endpoint = settings.endpoint.as_deref().unwrap_or("-");
    let now = jiff::Timestamp::now().strftime("%Y-%m-%d");
    Ok(format!("{address} {endpoint} {now}"))
}

/// Tests the store of a bucket before this device writes there for the first time, and notes that it is
/// good. Whoever makes the repository there tests it with races; the others test briefly.
pub fn test_before_writing(
    context: &Context,
    address: &BucketAddress,
    is_first: bool,
) -> Result<(), Failure> {
    if is_tested(context, address)? {
        return Ok(());
    }
    let before = context.buckets.counters.now().requests();
    let check = if is_first {
        probe::check
    } else {
        probe::check_briefly
    };
    // A push that may not write says so itself.
    let StoreTest::Good = run_test(context, address, check)? else {
        return Ok(());
    };
    context.buckets.is_tested.set(true);
    let made = context.buckets.counters.now().requests() - before;
    let made = count(made, "request", "requests");
    context.ui.note(format_args!(
        "tested the store before the first change from here: {made}"
    ));
    note_tested(context, address)
}

/// What that test would cost.
pub fn cost_of_test(
    context: &Context,
    address: &BucketAddress,
    is_first: bool,
) -> Result<TestCost, Failure> {
    Ok(match (is_tested(context, address)?, is_first) {
        (true, _) => TestCost::default(),
        (false, true) => probe::CHECK,
        (false, false) => probe::BRIEF_CHECK,
    })
}

/// Whether this device has tested the store of an address before.
fn is_tested(context: &Context, address: &BucketAddress) -> Result<bool, Failure> {
    if context.buckets.is_tested.get() {
        return Ok(true);
    }
    let noted = match remote_at(context, address)? {
        Some(name) => context.config()?.noted(&name, TESTED).map(str::to_owned),
        None => copies(context, address)?
            .file(TESTED)
            .and_then(|text| String::from_utf8(text).ok()),
    };
    let same = |text: String| text.rsplit_once(' ').map(|(place, _)| place.to_owned());
    Ok(noted.is_some() && noted.and_then(same) == same(verdict(context, address)?))
}

/// Notes that the store of an address is good: in the settings of its remote, or beside what this device
/// keeps of an address that is no remote's.
fn note_tested(context: &Context, address: &BucketAddress) -> Result<(), Failure> {
    let verdict = verdict(context, address)?;
    match remote_at(context, address)? {
        Some(name) => {
            let repo = context.repo_as_it_is()?;
            note_verdict(&repo, &name, &verdict)
        }
        None => {
            copies(context, address)?.keep_file(TESTED, verdict.as_bytes());
            Ok(())
        }
    }
}

/// The remote that has an address.
fn remote_at(context: &Context, address: &BucketAddress) -> Result<Option<String>, Failure> {
    let text = address.to_string();
    let mut remotes = context.config()?.remotes().into_iter();
    Ok(remotes.find(|(_, url)| *url == text).map(|(name, _)| name))
}

fn copies(context: &Context, address: &BucketAddress) -> Result<Cache, Failure> {
    let repo = context.repo_as_it_is()?;
    Ok(Cache::open(Some(repo.dmv_dir()), &address.to_string()))
}

/// Notes in the settings of a remote that its store is good.
pub fn note_verdict(repo: &Repo, name: &str, verdict: &str) -> Result<(), Failure> {
    let file = repo.dmv_dir().join(CONFIG_FILE);
    crate::config::edit(&file, crate::config::Scope::Repository, |document| {
        let remotes = document.get_mut(REMOTES).and_then(Item::as_table_like_mut);
        let found = remotes.and_then(|table| table.get_mut(name));
        if let Some(table) = found.and_then(Item::as_table_like_mut) {
            table.insert(TESTED, value(verdict));
        }
    })
}
