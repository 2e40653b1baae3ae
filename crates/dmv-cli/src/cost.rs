//! What the requests of a command to a bucket cost. A program without buckets makes none.

use crate::context::Context;
use crate::failure::Failure;
use crate::format::json::Json;
#[cfg(feature = "store")]
use crate::format::json::object;
#[cfg(feature = "store")]
use crate::format::text::{bytes, count};
#[cfg(feature = "store")]
use dmv_bucket::store::RequestCounts;
use std::io::Write;

/// What the requests of this command cost.
#[cfg(feature = "store")]
pub struct Cost {
    counted: RequestCounts,
    /// About how many dollars.
    dollars: f64,
}

/// What the requests of this command cost: nothing.
#[cfg(not(feature = "store"))]
pub enum Cost {}

/// Requests that a command would add to those that it has made, and their bytes.
#[derive(Clone, Copy, Default)]
#[cfg_attr(
    not(feature = "store"),
    expect(dead_code, reason = "no requests, no price")
)]
pub struct MoreRequests {
    /// Requests that write.
    pub writes: u64,
    /// Requests that read.
    pub reads: u64,
    /// Bytes that would be sent.
    pub sent: u64,
    /// Bytes that would be received.
    pub received: u64,
}

/// Prints a document, with what the requests cost, if there were any.
pub fn print_with_cost(context: &Context, mut document: Json) -> Result<(), Failure> {
    if let Some(cost) = Cost::of(context)? {
        cost.add_to(&mut document);
    }
    context.ui.json(&document.sorted())
}

/// Prints as text what the requests cost, if there were any.
pub fn print_cost(context: &Context, out: &mut impl Write) -> Result<(), Failure> {
    match Cost::of(context)? {
        Some(cost) => Ok(writeln!(out, "{}", cost.line())?),
        None => Ok(()),
    }
}

/// Says what the requests cost if the command has not said it yet. With `--json`, that is an object of its own
/// on standard error: the output is a list of records, or nothing.
#[cfg(feature = "store")]
pub fn tell_cost(context: &Context) {
    if context.buckets.is_told.get() {
        return;
    }
    let Ok(Some(cost)) = Cost::of(context) else {
        return;
    };
    if context.ui.is_json() {
        let mut document = object! { "type": "cost" };
        cost.add_to(&mut document);
        // There is nowhere left to say that this failed.
        let _ = context.ui.json_sum(&document.sorted());
    } else {
        context.ui.note(cost.line());
    }
}

#[cfg(feature = "store")]
impl Cost {
    /// Returns what the requests so far cost; `None` if there were none.
    pub fn of(context: &Context) -> Result<Option<Cost>, Failure> {
        Cost::with(context, MoreRequests::default())
    }

    /// Returns what the requests would cost with so many more; `None` if there were none so far.
    pub fn with(context: &Context, more: MoreRequests) -> Result<Option<Cost>, Failure> {
        let mut counted = context.buckets.counters.now();
        if counted.requests() == 0 {
            return Ok(None);
        }
        context.buckets.is_told.set(true);
        counted.put += more.writes;
        counted.get += more.reads;
        counted.sent += more.sent;
        counted.received += more.received;
        let dollars = price(
            context,
            MoreRequests {
                writes: counted.put + counted.list,
                reads: counted.get,
                sent: counted.sent,
                received: counted.received,
            },
        )?;
        Ok(Some(Cost { counted, dollars }))
    }

    /// Returns `3 requests, 14 KiB up, about $0.00001`.
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
    pub fn add_to(&self, document: &mut Json) {
        let counted = &self.counted;
        document.add(
            "requests",
            object! { counted.{get, put, list, delete, retried} },
        );
        document.add("cost_usd", self.dollars);
        // A summary of a transfer has them already, and that of a dry run says what it means.
        if !document.has("bytes_sent") && !document.has("dry_run") {
            document.add("bytes_sent", counted.sent);
            document.add("bytes_received", counted.received);
        }
    }
}

#[cfg(not(feature = "store"))]
impl Cost {
    /// Returns `None`.
    pub fn of(_: &Context) -> Result<Option<Cost>, Failure> {
        Ok(None)
    }

    /// Returns `None`.
    pub fn with(_: &Context, _: MoreRequests) -> Result<Option<Cost>, Failure> {
        Ok(None)
    }

    /// Is never called.
    pub fn line(&self) -> String {
        match *self {}
    }

    /// Is never called.
    pub fn add_to(&self, _: &mut Json) {
        match *self {}
    }
}

/// Returns what requests cost, as a text such as `0.00001`.
#[cfg(feature = "store")]
pub fn dollars(context: &Context, requests: MoreRequests) -> Result<String, Failure> {
    price(context, requests).map(few_digits)
}

#[cfg(feature = "store")]
fn price(context: &Context, requests: MoreRequests) -> Result<f64, Failure> {
    let config = context.config()?;
    let thousand = |n: u64, name| Ok::<f64, Failure>(n as f64 / 1e3 * config.price(name)?);
    Ok(thousand(requests.writes, "bucket.price-write")?
        + thousand(requests.reads, "bucket.price-read")?
        + requests.received as f64 / 1e9 * config.price("bucket.price-download")?)
}

/// A small number with one digit that counts, or cents.
#[cfg(feature = "store")]
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

#[cfg(all(test, feature = "store"))]
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
