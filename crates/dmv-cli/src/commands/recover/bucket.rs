//! `dmv recover --at REMOTE`: what is left of a bucket whose root is lost, and a new root.

use crate::cost::{print_with_cost, tell_cost};
use crate::on_demand::remote_failure;
use crate::peers::{Call, is_address, remote};
use crate::prelude::*;
use dmv_bucket::ops::{
    AtBucketError, LostKind, LostState, NotRestored, Origin, RecoverAtOptions, RecoverAtReport,
    recover_at, words_of,
};
use dmv_core::hash::encode_hex;
use dmv_core::refs::Operation;
use dmv_net::ops::Remote;

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
    let done = recover_at(repo.as_deref(), &options, &call, &context.job);
    drop(call);
    let report = done.map_err(|e| match e {
        AtBucketError::Refused(why) => refused(&why, &remote),
        AtBucketError::Failed(e) => remote_failure(context, &remote, e),
    })?;
    if context.ui.is_json() {
        print_with_cost(context, document(&report))?
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

fn document(report: &RecoverAtReport) -> Json {
    let bad = report.bad.iter();
    let bad = bad.map(|(file, why)| object! { file: file, why: why });
    let (root, why) = match &report.lost {
        None => ("intact", None),
        Some(LostKind::Gone) => ("gone", None),
        Some(LostKind::Damaged(why)) => ("damaged", Some(why.to_string())),
    };
    object! {
        root: root,
        why: why,
        report.{files, bytes},
        damaged_files: Json::List(bad.collect()),
        states: Json::List(report.states.iter().map(state_value).collect()),
        restored: report.restored.as_ref().map(|state| &state.id),
    }
}

fn state_value(state: &LostState) -> Json {
    let (origin, generation) = match state.origin {
        Origin::Known(generation) => ("root", Some(generation)),
        Origin::Page => ("log", None),
        Origin::Packs => ("packs", None),
    };
    let refs = state.refs.iter();
    let refs = refs.map(|(name, id)| object! { name: name, commit: id });
    object! {
        state.{id, repository},
        from: origin,
        generation: generation,
        state.{operations},
        newest: state.newest.as_ref().map(operation_value),
        state.{added, unsure, unknown},
        left_out: Json::List(state.left_out.iter().map(operation_value).collect()),
        refs: Json::List(refs.collect()),
        state.{missing_files, missing},
        flaw: state.flaw.map(|flaw| words_of(flaw, state.missing)),
    }
}

fn operation_value(operation: &Operation) -> Json {
    object! { id: encode_hex(&operation.id), operation.{time, who, command} }
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
        print_refs(&mut out, state)?;
        context.ui.note(hint!(
            "hint: dmv verify --at {}; then let everybody fetch and push: whoever has newer commits \
             brings them back",
            name
        ));
        tell_cost(context);
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
        print_state(&mut out, state)?;
    }
    print_advice(context, &name, report);
    tell_cost(context);
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
