//! Which page answers which address, and what answers where none does.

use crate::address::Target;
use crate::answer::{Answer, json, line};
use crate::doing::Lane;
use crate::pages::{self, layout};
use crate::program::Stop;
use crate::site::{Ask, Post, Site};
use crate::{archive, changes, dav, preview, raw};
use hyper::StatusCode;
use hyper::http::request::Parts;
use std::sync::Arc;

/// Answers a request of somebody who may ask.
pub fn answer(site: &Arc<Site>, head: &Parts, target: &Target, post: Option<&Post>) -> Answer {
    let answered = site.repo().and_then(|repo| {
        let ask = Ask {
            site,
            repo,
            target,
            head,
        };
        match post {
            Some(post) => changes::change(&ask, post),
            None if site.dav && dav::is_asked(target) => dav::send(&ask),
            None => page(&ask),
        }
    });
    answered.unwrap_or_else(|stop| failed(site, target, stop))
}

fn page(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let segments: Vec<&[u8]> = ask.target.segments.iter().map(Vec::as_slice).collect();
    match &segments[..] {
        [] => pages::overview::show(ask),
        [b"log", ..] => pages::log::show(ask),
        [b"tree", _, ..] => pages::tree::show(ask),
        [b"file", b":", _, ..] => pages::present::show(ask),
        [b"file", _, _, ..] => pages::file::show(ask),
        [b"compare"] => pages::compare::show(ask),
        [b"worktree"] => pages::worktree::show(ask),
        [b"copies"] => pages::copies::show(ask),
        [b"conflicts"] => pages::conflicts::show(ask),
        [b"raw", _, _, ..] => raw::send(ask),
        [b"preview", _, _, ..] => preview::send(ask),
        [b"zip", _, ..] => archive::send(ask),
        [b"doing"] => pages::doing::show(ask, Lane::Files),
        [b"transfer"] => pages::doing::show(ask, Lane::Transfers),
        [b"getting"] => Ok(json(StatusCode::OK, &ask.site.getting.state())),
        _ => Err(Stop::NoPage),
    }
}

/// The failure of a page, in the words of the commands.
fn failed(site: &Arc<Site>, target: &Target, stop: Stop) -> Answer {
    let is_raw = |page: &Vec<u8>| [&b"raw"[..], b"zip", b"preview", dav::PAGE].contains(&&page[..]);
    let (status, told) = site.told(stop);
    if target.json() {
        return json(status, &told.values());
    }
    if target.segments.first().is_some_and(is_raw) {
        return line(status, &told.message);
    }
    layout::failure(site, status, &told)
}
