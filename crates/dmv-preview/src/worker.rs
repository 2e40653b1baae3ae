//! The process that decodes one file: it reads its job, gives up its rights, decodes, answers, and ends.

use crate::confine;
use crate::decode;
#[cfg(target_os = "linux")]
use crate::film;
use crate::input::{Input, Memory, Parent};
use crate::preview::{Kind, Limits, Preview, PreviewKind, Reason};
use crate::wire::{self, Job};
use std::io::{self, Stdin};
use std::process::ExitCode;

/// The whole program of the process that decodes one file for a [`crate::Maker`]. It speaks over standard input and
/// output, and nothing else may use them. Call it before the program starts a thread or opens a file.
pub fn worker() -> ExitCode {
    // Nobody reads what a panic says, and looking for names in the program would need files.
    std::panic::set_hook(Box::new(|_| {}));
    #[cfg(target_os = "linux")]
    if let Some(format) = format_of_film() {
        return film::become_ffmpeg(&format);
    }
    let (mut from, mut to) = (io::stdin(), io::stdout());
    let Some(job) = job(&mut from) else {
        return ExitCode::FAILURE;
    };
    if confine::enter(&job.limits).is_err() {
        return ExitCode::from(confine::REFUSED);
    }
    let left = job.limits.read_bytes;
    let parent = Parent {
        from,
        to: io::stdout(),
        left,
    };
    let result = decode::make(&mut Input::new(parent, job.len), &job);
    match wire::send(&mut to, wire::DONE, &wire::encode_result(&result)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The format of the film that the parent wants a picture of, which it says as the last arguments.
#[cfg(target_os = "linux")]
fn format_of_film() -> Option<String> {
    let mut args = std::env::args().rev();
    let format = args.next()?;
    (args.next()? == film::MARK).then_some(format)
}

fn job(from: &mut Stdin) -> Option<Job> {
    let (kind, len) = wire::head(from).ok()??;
    if kind != wire::JOB || len > wire::MAX_JOB {
        return None;
    }
    Job::decode(&wire::payload(from, len).ok()?)
}

/// Makes a preview in this process, without any protection: for tests and fuzzing of the decoders.
pub fn in_process(
    name: &str,
    bytes: &[u8],
    wanted: PreviewKind,
    limits: Limits,
) -> Result<Preview, Reason> {
    let job = Job {
        ending: ending(name),
        len: bytes.len() as u64,
        wanted,
        limits,
    };
    let result = decode::make(&mut Input::new(Memory(bytes), job.len), &job);
    let result = wire::decode_result(&wire::encode_result(&result));
    result.unwrap_or_else(|| Err(Reason::new(Kind::Damaged, "the decoder's answer is wrong")))
}

/// Returns a name's ending in lower case, without the dot. Endings that no format has are left out.
pub fn ending(name: &str) -> String {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let fits = ending.len() <= 8 && ending.bytes().all(|b| b.is_ascii_alphanumeric());
    if fits {
        ending.to_ascii_lowercase()
    } else {
        String::new()
    }
}
