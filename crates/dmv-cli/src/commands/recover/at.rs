//! `dmv recover --at REMOTE`: what is left of a bucket whose root is lost, and a new root.

use crate::bucket;
use crate::context::Context;
use crate::failure::{EXIT_DAMAGE, EXIT_NO_REPOSITORY, EXIT_OK, EXIT_OTHER, EXIT_REFUSED, Failure};
use crate::format::text::{SHORT_ID, bytes, clean, count, rfc3339, time};
use crate::peers::{Call, is_address, remote};
use crate::supply::remote_failure;
use dmv_bucket::ops::{
    AtBucketError, LostKind, LostState, NotRestored, Origin, RecoverAtOptions, RecoverAtReport,
    recover_at, words_of,
};
use dmv_core::escape::Argument;
use dmv_core::hint;
use dmv_core::refs::Operation;
use dmv_net::ops::Remote;
use std::io::Write;

/// The most branches and tags of a state that are printed.
const MAX_REFS: usize = 20;
/// The most damaged files that are printed.
const MAX_BAD: usize = 20;

/// Runs the command for a remote.
pub fn run(context: &Context, at: &str, chosen: Option<&str>) -> Result<u8, Failure> {
    let repo = match context.repo_as_it_is() {
        Ok(repo) => Some(repo),
        Err(e) if e.exit == EXIT_NO_REPOSITORY && is_address(at) => None,
        Err(e) => return Err(e),
    };
    let remote = remote(context, Some(at))?;
    let options = RecoverAtOptions {
        remote: remote.clone(),
        chosen: chosen.map(str::to_owned),
        request: context.request()?,
    };
    let call = Call::to(context, "reading the bucket");
    let done = recover_at(repo.as_ref(), &options, &call, &context.job);
    drop(call);
    let report = done.map_err(|e| match e {
        AtBucketError::Refused(why) => refused(&why, &remote),
        AtBucketError::Failed(e) => remote_failure(context, &remote, e),
    })?;
    if context.globals.json {
        print_json(context, &report)?
    } else {
        print(context, &remote, &report)?
    }
    Ok(match (&report.lost, &report.restored) {
        (Some(_), None) => EXIT_DAMAGE,
        _ => EXIT_OK,
    })
}

/// The failure where nothing was restored.
fn refused(why: &NotRestored, remote: &Remote) -> Failure {
    let name = Argument::value(&remote.name);
    let (code, exit) = match why {
        NotRestored::Intact => ("root-intact", EXIT_REFUSED),
        NotRestored::NoState { .. } => ("no-state", EXIT_OTHER),
        NotRestored::Flawed { .. } | NotRestored::TooLarge => ("not-restored", EXIT_REFUSED),
    };
    let hint = match why {
        NotRestored::Intact => hint!("dmv verify --at {}", name),
        NotRestored::NoState { .. } | NotRestored::TooLarge => hint!("dmv recover --at {}", name),
        NotRestored::Flawed { .. } => {
            "let a device that has everything push to a new place in the bucket".into()
        }
    };
    Failure::new(code, exit, format!("{name}: {why}")).hint(hint)
}

fn print_json(context: &Context, report: &RecoverAtReport) -> Result<(), Failure> {
    let bad = report.bad.iter();
    let bad = bad.map(|(file, why)| serde_json::json!({ "file": file, "why": why }));
    let (root, why) = match &report.lost {
        None => ("intact", None),
        Some(LostKind::Gone) => ("gone", None),
        Some(LostKind::Damaged(why)) => ("damaged", Some(why)),
    };
    let states = report.states.iter().map(state_json);
    let mut document = serde_json::json!({
        "root": root,
        "why": why,
        "files": report.files,
        "bytes": report.bytes,
        "damaged_files": bad.collect::<Vec<_>>(),
        "states": states.collect::<Vec<_>>(),
        "restored": report.restored.as_ref().map(|state| &state.id),
    });
    if let Some(cost) = bucket::cost(context)? {
        cost.add_to(&mut document);
    }
    context.ui.json(&document)
}

fn state_json(state: &LostState) -> serde_json::Value {
    let (origin, generation) = match state.origin {
        Origin::Known(generation) => ("root", Some(generation)),
        Origin::Page => ("log", None),
        Origin::Packs => ("packs", None),
    };
    let refs = state.refs.iter();
    let refs = refs.map(|(name, id)| serde_json::json!({ "name": name, "commit": id.to_string() }));
    serde_json::json!({
        "id": state.id,
        "repository": state.repository,
        "from": origin,
        "generation": generation,
        "operations": state.operations,
        "newest": state.newest.as_ref().map(operation_json),
        "added": state.added,
        "unsure": state.unsure,
        "unknown": state.unknown,
        "left_out": state.left_out.iter().map(operation_json).collect::<Vec<_>>(),
        "refs": refs.collect::<Vec<_>>(),
        "missing_files": state.missing_files,
        "missing": state.missing,
        "flaw": state.flaw.map(|flaw| words_of(flaw, state.missing)),
    })
}

fn operation_json(operation: &Operation) -> serde_json::Value {
    let when = operation.time;
    serde_json::json!({
        "id": dmv_core::hash::encode_hex(&operation.id),
        "time": rfc3339(when.seconds, when.nanos, when.tz_minutes),
        "who": operation.who,
        "command": operation.command,
    })
}

fn print(context: &Context, remote: &Remote, report: &RecoverAtReport) -> Result<(), Failure> {
    let name = Argument::value(&remote.name);
    let mut out = context.ui.out();
    let Some(lost) = &report.lost else {
        writeln!(
            out,
            "the root of {name} is intact; there is nothing to recover"
        )?;
        return Ok(());
    };
    if let Some(state) = &report.restored {
        writeln!(out, "restored state {} at {name}", state.id)?;
        print_refs(&mut *out, state)?;
        drop(out);
        context.ui.note(hint!(
            "hint: dmv verify --at {}; then let everybody fetch and push: whoever has newer commits \
             brings them back",
            name
        ));
        bucket::tell_cost(context);
        return Ok(());
    }
    let files = count(report.files, "file", "files");
    let how = match lost {
        LostKind::Gone => "gone".to_owned(),
        LostKind::Damaged(why) => format!("damaged ({why})"),
    };
    let size = bytes(report.bytes);
    writeln!(
        out,
        "the root of {name} is {how}; {files} of {size} are left"
    )?;
    for (file, why) in report.bad.iter().take(MAX_BAD) {
        writeln!(out, "unusable: {}: {why}", clean(file))?;
    }
    if report.bad.len() > MAX_BAD {
        writeln!(out, "unusable: {} more", report.bad.len() - MAX_BAD)?;
    }
    for state in &report.states {
        print_state(&mut *out, state)?;
    }
    drop(out);
    print_advice(context, &name, report);
    bucket::tell_cost(context);
    Ok(())
}

fn print_state(out: &mut impl Write, state: &LostState) -> Result<(), Failure> {
    let origin = match state.origin {
        Origin::Known(generation) => {
            format!("the root that this device saw last (generation {generation})")
        }
        Origin::Page => "the newest page of the log".to_owned(),
        Origin::Packs => "packs alone".to_owned(),
    };
    let verdict = match state.flaw {
        None => "complete".to_owned(),
        Some(flaw) => format!("cannot be restored: {}", words_of(flaw, state.missing)),
    };
    writeln!(out, "\nstate {}, from {origin}: {verdict}", state.id)?;
    if let Some(newest) = &state.newest {
        writeln!(out, "    operation {}: {}", state.operations, line(newest))?;
    }
    print_refs(out, state)?;
    if state.added > 0 {
        let added = count(state.added, "operation", "operations");
        let unsure = match state.unsure {
            0 => String::new(),
            unsure => format!("; {unsure} may not have been completed"),
        };
        writeln!(out, "    includes {added} from packs{unsure}")?;
    }
    if state.unknown > 0 {
        let unknown = count(state.unknown, "operation", "operations");
        writeln!(
            out,
            "    at least {unknown} in between: nothing is known of them"
        )?;
    }
    for operation in &state.left_out {
        writeln!(out, "    without: {}", line(operation))?;
    }
    if state.missing_files > 0 {
        let files = count(state.missing_files, "file is", "files are");
        writeln!(out, "    {files} missing that this root names")?;
    }
    Ok(())
}

fn print_refs(out: &mut impl Write, state: &LostState) -> Result<(), Failure> {
    for (key, id) in state.refs.iter().take(MAX_REFS) {
        let (kind, name) = key.split_once('/').unwrap_or(("", key));
        let (kind, name) = (clean(kind), clean(name));
        writeln!(out, "    {kind} {name} at {}", id.short(SHORT_ID))?;
    }
    if state.refs.len() > MAX_REFS {
        let more = state.refs.len() - MAX_REFS;
        writeln!(out, "    {more} more branches and tags")?;
    }
    Ok(())
}

/// `2026-11-26 17:20  Ada <ada@example.org>  dmv push`.
fn line(operation: &Operation) -> String {
    let when = time(operation.time.seconds, operation.time.tz_minutes);
    let (who, command) = (clean(&operation.who), clean(&operation.command));
    format!("{when}  {who}  {command}")
}

/// Says what to try, in this order.
fn print_advice(context: &Context, name: &Argument, report: &RecoverAtReport) {
    context.ui.note(
        "hint: nothing was changed. First: if the bucket keeps versions of its files, restore the last good \
         version of 'root' with the tools of the store; this loses nothing",
    );
    let mut good = report.states.iter().filter(|state| state.flaw.is_none());
    let next = match good.next() {
        Some(state) => hint!(
            "hint: otherwise choose a state. The device that has pushed last may know a newer one: look \
             there first. Then: dmv recover --at {} --use {}",
            *name,
            Argument::value(&state.id)
        ),
        None => {
            "hint: otherwise let a device that has everything push to a new place in the bucket"
                .into()
        }
    };
    context.ui.note(next);
}
