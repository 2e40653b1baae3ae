//! `dmv clone --dry-run`: what a clone of a bucket would cost.

use super::not_made;
use crate::bucket;
use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::text::{bytes, count};
use crate::peers::Call;
use crate::supply::ops_failure;
use dmv_net::ops::{CloneDir, CloneOptions, foreseen_clone, is_foreseeable};
use dmv_net::transport::Url;
use std::io::Write;

/// Reports what a clone would receive. Makes nothing.
pub fn run(context: &Context, options: &CloneOptions) -> Result<u8, Failure> {
    if !matches!(options.source, Url::Bucket(_)) {
        let message = "only clones of buckets can be foretold";
        return Err(Failure::usage(message));
    }
    if !is_foreseeable(options) {
        let message = "a clone with --subset, --depth or --since cannot be foretold: which content it \
                       needs is known only from the directories";
        let hint = "dmv clone --meta-only SRC DIR, which costs little; then dmv get PATH";
        return Err(Failure::usage(message).hint(hint));
    }
    CloneDir::look(options).map_err(not_made)?;
    let call = Call::new(context);
    let forecast = foreseen_clone(options, &call);
    drop(call);
    let forecast = forecast.map_err(|e| ops_failure(context, e))?;
    let cost = bucket::foretold_reads(context, forecast.reads, forecast.bytes)?;
    if context.globals.json {
        let mut document = serde_json::json!({
            "dry_run": true,
            "packs": forecast.packs,
            "bytes": forecast.bytes,
        });
        if let Some(cost) = &cost {
            cost.add_to(&mut document);
        }
        context.ui.json(&document)?;
        return Ok(EXIT_OK);
    }
    let (packs, size) = (
        count(forecast.packs, "pack", "packs"),
        bytes(forecast.bytes),
    );
    let mut out = context.ui.out();
    writeln!(
        out,
        "nothing was made: a clone would receive {size} of {packs}"
    )?;
    if let Some(cost) = cost {
        writeln!(out, "it would take about {}", cost.line())?;
    }
    Ok(EXIT_OK)
}
