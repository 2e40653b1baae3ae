//! Remotes in object stores: their settings, what their requests cost, and whether their stores keep
//! what a bucket relies on.

use crate::config::REMOTES;
use crate::context::Context;
use crate::error::net_failure;
use crate::failure::{EXIT_REFUSED, Failure};
use crate::format::text::{bytes, count};
use crate::reach::Reach;
use dmv_bucket::files::{FileFailure, Files};
use dmv_bucket::format::{ROOT, Root};
use dmv_bucket::store::probe::{self, Bad, TestCost};
use dmv_bucket::store::{RequestCounts, Settings, Store};
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

/// What the requests of this command cost.
pub struct Cost {
    /// The requests.
    pub counted: RequestCounts,
    /// About how many dollars.
    pub dollars: f64,
}

/// What the requests so far cost; `None`: there were none.
pub fn cost(context: &Context) -> Result<Option<Cost>, Failure> {
    let counted = context.buckets.counters.now();
    if counted.requests() == 0 {
        return Ok(None);
    }
    context.buckets.is_told.set(true);
    let dollars = price(
        context,
        counted.put + counted.list,
        counted.get,
        counted.received,
    )?;
    Ok(Some(Cost { counted, dollars }))
}

/// What the command would cost that was only foretold: the requests so far, with so many more that write
/// and that read. `None`: there were none.
pub fn foretold(
    context: &Context,
    writes: u64,
    reads: u64,
    sent: u64,
) -> Result<Option<Cost>, Failure> {
    let Some(mut cost) = cost(context)? else {
        return Ok(None);
    };
    cost.counted.put += writes;
    cost.counted.get += reads;
    cost.counted.sent += sent;
    cost.price_again(context)
}

/// The same with so many more requests that read.
pub fn foretold_reads(
    context: &Context,
    reads: u64,
    received: u64,
) -> Result<Option<Cost>, Failure> {
    let Some(mut cost) = cost(context)? else {
        return Ok(None);
    };
    cost.counted.get += reads;
    cost.counted.received += received;
    cost.price_again(context)
}

/// What so many requests that write, requests that read, and received bytes cost.
fn price(context: &Context, writes: u64, reads: u64, received: u64) -> Result<f64, Failure> {
    let config = context.config()?;
    let thousand = |n: u64, name| Ok::<f64, Failure>(n as f64 / 1e3 * config.price(name)?);
    Ok(thousand(writes, "bucket.price-write")?
        + thousand(reads, "bucket.price-read")?
        + received as f64 / 1e9 * config.price("bucket.price-download")?)
}

/// The same as a text, such as `0.00001`.
pub fn dollars(
    context: &Context,
    writes: u64,
    reads: u64,
    received: u64,
) -> Result<String, Failure> {
    price(context, writes, reads, received).map(few_digits)
}

impl Cost {
    fn price_again(mut self, context: &Context) -> Result<Option<Cost>, Failure> {
        let (put, list, get) = (self.counted.put, self.counted.list, self.counted.get);
        self.dollars = price(context, put + list, get, self.counted.received)?;
        Ok(Some(self))
    }

    /// `3 requests, 14 KiB up, about $0.00001`.
    pub fn line(&self) -> String {
        let mut line = count(self.counted.requests(), "request", "requests");
        for (n, way) in [(self.counted.sent, "up"), (self.counted.received, "down")] {
            if n > 0 {
                line += &format!(", {} {way}", bytes(n));
            }
        }
        if self.counted.retried > 0 {
            line += &format!(", {} of them repeated", self.counted.retried);
        }
        format!("{line}, about ${}", few_digits(self.dollars))
    }

    /// Adds the fields of the summary to an object.
    pub fn add_to(&self, document: &mut serde_json::Value) {
        let RequestCounts {
            get,
            put,
            list,
            delete,
            retried,
            ..
        } = self.counted;
        document["requests"] = serde_json::json!({
            "get": get, "put": put, "list": list, "delete": delete, "retried": retried
        });
        document["cost_usd"] = serde_json::json!(self.dollars);
        // A summary of a transfer has them already, and one that is only foretold says what it means.
        if document.get("bytes_sent").is_none() && document.get("dry_run").is_none() {
            document["bytes_sent"] = self.counted.sent.into();
            document["bytes_received"] = self.counted.received.into();
        }
    }
}

/// A small number with one digit that counts, or cents.
fn few_digits(n: f64) -> String {
    if n >= 0.01 {
        return format!("{n:.2}");
    }
    if n <= 0.0 {
        return "0".to_owned();
    }
    let places = (-n.log10().floor()).clamp(1.0, 12.0) as usize;
    let text = format!("{n:.places$}");
    text.trim_end_matches('0').to_owned()
}

/// Says what the requests cost if the command has not said it yet. With `--json`, that is an object of its
/// own on standard error: the output is a list of records, or nothing.
pub fn tell_cost(context: &Context) {
    if context.buckets.is_told.get() {
        return;
    }
    let Ok(Some(cost)) = cost(context) else {
        return;
    };
    if context.globals.json {
        let mut document = serde_json::json!({ "type": "cost" });
        cost.add_to(&mut document);
        // If it cannot be written, nobody can be told so.
        let _ = context.ui.json_sum(&document);
    } else {
        context.ui.note(cost.line());
    }
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
        Some(name) => note_verdict(&context.repo_as_it_is()?, &name, &verdict),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_one_line() {
        let cost = |put, get, sent, received| {
            let counted = RequestCounts {
                put,
                get,
                sent,
                received,
                ..RequestCounts::default()
            };
            let dollars = put as f64 * 5e-6 + get as f64 * 4e-7;
            Cost { counted, dollars }.line()
        };
        assert_eq!(
            cost(2, 1, 14 << 10, 0),
            "3 requests, 14.0 KiB up, about $0.00001"
        );
        assert_eq!(
            cost(0, 1, 0, 300),
            "1 request, 300 B down, about $0.0000004"
        );
        for (n, text) in [
            (0.0, "0"),
            (1.234, "1.23"),
            (0.0104, "0.01"),
            (0.0096, "0.01"),
            (0.2, "0.20"),
        ] {
            assert_eq!(few_digits(n), text);
        }
    }
}
