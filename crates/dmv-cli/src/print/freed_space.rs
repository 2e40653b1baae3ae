//! How much space a command has freed, and why not more.

use crate::prelude::*;
use dmv_core::repo::FreedSpace;

/// The failure of a command that could not free everything because the disk is full. What it has done
/// counts, and when it runs again it frees the rest.
pub fn no_room(stays: &str, why: &str) -> Failure {
    let message = format!(
        "the disk is full: {stays}, since what else their packs have must be copied first ({}); everything that is needed is intact",
        clean(why)
    );
    Failure::new("disk-full", EXIT_OTHER, message)
        .hint("free some disk space, then run the same command again")
}

/// What was freed, in JSON.
pub fn freed_value(freed: &FreedSpace) -> Json {
    object! { freed.{freed_bytes, waiting_bytes, shared_bytes, linked_bytes} }
}

/// Prints how much space is free now, and why the rest is not.
pub fn print_freed(out: &mut impl Write, freed: &FreedSpace) -> Result<(), Failure> {
    writeln!(out, "freed now: {}", bytes(freed.freed_bytes))?;
    for (size, label, why) in [
        (
            freed.waiting_bytes,
            "not freed yet",
            "in packs that also contain other files",
        ),
        (
            freed.linked_bytes,
            "not freed yet",
            "in packs that another repository on this disk also uses",
        ),
        (
            freed.shared_bytes,
            "not freed",
            "which other files or versions also use",
        ),
    ] {
        if size > 0 {
            writeln!(out, "{label}: {}, {why}", bytes(size))?;
        }
    }
    Ok(())
}

/// Says which packs could not be freed. Fails if the disk is too full for it.
pub fn check_freed(context: &Context, freed: &FreedSpace) -> Result<(), Failure> {
    match &freed.why_not_freed {
        Some(why) if freed.no_room => Err(no_room("some packs could not be freed", why)),
        Some(why) => {
            let text = format_args!("some packs could not be freed: {}", clean(why));
            context.ui.warn(text);
            Ok(())
        }
        None => Ok(()),
    }
}
