//! Buckets: `dmv remote add` and `dmv remote check`.

use crate::bucket::{StoreTest, look_at_mirror, note_verdict, notes, take, test, verdict};
use crate::cost::print_with_cost;
use crate::failure::EXIT_PERMISSION;
use crate::peers::remote;
use crate::prelude::*;
use crate::store_options::Reach;
use dmv_net::transport::Url;

/// Tests the store of a new remote. Returns what its settings note beside the address.
pub fn before_adding(
    context: &Context,
    url: &Url,
    reach: &Reach,
) -> Result<Vec<(&'static str, toml_edit::Value)>, Failure> {
    take(context, url, reach)?;
    let mut notes = notes(context);
    let Url::Bucket(address) = url else {
        return Ok(notes);
    };
    // A connection is made by address: two stores with one address could be taken for each other.
    let remotes = context.config()?.remotes();
    if let Some((name, _)) = remotes.iter().find(|(_, known)| *known == url.to_string()) {
        let message = format!("the remote '{name}' already has the address {address}");
        let hint = hint!("dmv remote remove {}", Argument::value(name));
        return Err(Failure::new("remote-exists", EXIT_OTHER, message).hint(hint));
    }
    if address.scheme.is_web() {
        look_at_mirror(context, address)?;
        return Ok(notes);
    }
    match test(context, address)? {
        StoreTest::Good => notes.push(("tested", verdict(context, address)?.into())),
        StoreTest::ReadOnly => context.ui.note(
            "note: you may not write to this bucket, so its store was not tested; you can fetch \
             from it if you may read",
        ),
    }
    Ok(notes)
}

/// Tests the store of a remote.
pub fn check(context: &Context, repo: &Repo, name: &str) -> Result<u8, Failure> {
    let remote = remote(context, Some(name))?;
    let Url::Bucket(address) = &remote.url else {
        let message = format!("{} is not a bucket: there is no store to test", remote.url);
        return Err(Failure::usage(message).hint("dmv remote show"));
    };
    if let StoreTest::ReadOnly = test(context, address)? {
        let message = if address.scheme.is_web() {
            format!("{address}: this is a read-only mirror: there is nothing to test")
        } else {
            format!("{address} was not tested: you may not write there")
        };
        return Err(Failure::new("not-let-in", EXIT_PERMISSION, message));
    }
    if !remote.once {
        note_verdict(repo, &remote.name, &verdict(context, address)?)?;
    }
    let url = remote.url.to_string();
    if context.ui.is_json() {
        print_with_cost(context, object! { remote.{name}, url: url, ok: true })?;
        return Ok(EXIT_OK);
    }
    let (name, address) = (clean(&remote.name), clean(&url));
    let text = format!("{name}  {address}  several people can write to this store safely");
    writeln!(context.ui.out(), "{text}")?;
    Ok(EXIT_OK)
}
