//! What a connection has brought about claims, and the names of who claims.

use crate::context::Context;
use crate::format::text::{SHORT_ID, clean, count};
use dmv_core::hash::encode_hex;
use dmv_core::object::name::escape;
use dmv_core::repo::{ClaimHolder, DisplacedClaim, Precedence};

/// How many claims are told one by one.
const TOLD: usize = 5;

/// Says that somebody else is before own claims now.
pub fn tell_displaced(context: &Context, claims: &[DisplacedClaim]) {
    let (told, more) = claims.split_at(claims.len().min(TOLD));
    for DisplacedClaim { path, holder } in told {
        let (path, who) = (escape(path), who(holder));
        let reason = match &holder.reason[..] {
            "" => String::new(),
            reason => format!(": {}", clean(reason)),
        };
        context.ui.warn(match holder.how {
            Precedence::Took => {
                format!("{who} has taken over '{path}', which you had claimed{reason}")
            }
            Precedence::Ended => format!("{who} has ended your claim on '{path}'{reason}"),
            Precedence::First => format!("{who} has claimed '{path}', too, and was first{reason}"),
        });
    }
    if !more.is_empty() {
        let more = count(more.len() as u64, "more claim", "more claims");
        context.ui.warn(format_args!(
            "others are before {more} of yours: dmv claims --mine"
        ));
    }
}

/// `Ada (8f4c02d7a1b2)`: anybody can call himself Ada.
pub fn named(by: &str, device: &[u8]) -> String {
    let device = encode_hex(&device[..SHORT_ID / 2]);
    format!("{} ({device})", clean(by))
}

/// The same of who has a path.
pub fn who(holder: &ClaimHolder) -> String {
    named(&holder.by, &holder.device)
}
