//! `dmv clone --dry-run`: what a clone of a bucket would cost.

use super::not_made;
use crate::bucket;
use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::text::{bytes, count};
use crate::peers::Call;
use dmv_bucket::ops::foreseen_clone;
use dmv_net::ops::{CloneDir, CloneOptions};
use dmv_net::transport::Url;
use std::io::Write;

/// Reports what a clone would receive. Makes nothing.
pub fn run(context: &Context, options: &CloneOptions) -> Result<u8, Failure> {
    if !matches!(options.source, Url::Bucket(_)) {
        let message = "only clones of buckets can be foretold";
        return Err(Failure::usage(message));
    }
    CloneDir::look(options).map_err(not_made)?;
    let call = Call::new(context);
    let forecast = foreseen_clone(options, &call, &context.job);
    drop(call);
    let forecast = forecast.map_err(not_made)?;
    let received = forecast.bytes + forecast.again;
    let cost = bucket::foretold_reads(context, forecast.reads, forecast.bytes)?;
    if context.globals.json {
        let mut document = serde_json::json!({
            "dry_run": true,
            "packs": forecast.packs,
            "bytes": received,
        });
        if let Some(cost) = &cost {
            cost.add_to(&mut document);
        }
        context.ui.json(&document)?;
        return Ok(EXIT_OK);
    }
    let (packs, size) = (count(forecast.packs, "pack", "packs"), bytes(received));
    let mut out = context.ui.out();
    match forecast.again {
        0 => writeln!(
            out,
            "nothing was made: a clone would receive {size} of {packs}"
        )?,
        again => writeln!(
            out,
            "nothing was made: a clone would receive about {size}, with {} of directories that were \
             received to tell this",
            bytes(again)
        )?,
    }
    if let Some(cost) = cost {
        writeln!(out, "it would take about {}", cost.line())?;
    }
    Ok(EXIT_OK)
}
