//! The process that decodes one file, as a program of its own, for the tests of this crate. `dmv` has the hidden
//! command `preview-worker` for it.

fn main() -> std::process::ExitCode {
    dmv_preview::worker()
}
