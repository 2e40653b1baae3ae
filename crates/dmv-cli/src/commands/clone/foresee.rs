//! `dmv clone --dry-run`: what a clone of a bucket would cost.

use super::not_made;
use crate::cost::{Cost, MoreRequests};
use crate::peers::Call;
use crate::prelude::*;
use dmv_bucket::ops::foreseen_clone;
use dmv_net::ops::{CloneDir, CloneOptions};
use dmv_net::transport::Url;

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
    let more = MoreRequests {
        reads: forecast.reads,
        received: forecast.bytes,
        ..MoreRequests::default()
    };
    let cost = Cost::with(context, more)?;
    let document = || {
        let mut document = object! { dry_run: true, forecast.{packs}, bytes: received };
        if let Some(cost) = &cost {
            cost.add_to(&mut document);
        }
        document.sorted()
    };
    context.ui.show(document, |out| {
        let (packs, size) = (count(forecast.packs, "pack", "packs"), bytes(received));
        match forecast.again {
            0 => writeln!(out, "nothing was made: a clone would receive {size} of {packs}")?,
            again => writeln!(
                out,
                "nothing was made: a clone would receive about {size}, with {} of directories that were \
                 received to tell this",
                bytes(again)
            )?,
        }
        match &cost {
            Some(cost) => Ok(writeln!(out, "it would take about {}", cost.line())?),
            None => Ok(()),
        }
    })?;
    Ok(EXIT_OK)
}
