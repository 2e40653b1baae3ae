//! Runs the fuzz targets on their corpora and on small changes of them. Failures that a fuzzer has
//! found stay fixed, and targets keep working between fuzzer runs.

// The targets are programs of their own and begin with attributes.
#![allow(unused_attributes)]

use dmv_tests::rng::Rng;
use std::fs;
use std::path::Path;

#[path = "../../../fuzz/fuzz_targets/api.rs"]
mod api;
#[path = "../../../fuzz/fuzz_targets/bucket.rs"]
mod bucket;
#[path = "../../../fuzz/fuzz_targets/name_check.rs"]
mod name_check;
#[path = "../../../fuzz/fuzz_targets/notes.rs"]
mod notes;
#[path = "../../../fuzz/fuzz_targets/object_decode.rs"]
mod object_decode;
#[path = "../../../fuzz/fuzz_targets/op_decode.rs"]
mod op_decode;
#[path = "../../../fuzz/fuzz_targets/pack_read.rs"]
mod pack_read;
#[path = "../../../fuzz/fuzz_targets/statcache.rs"]
mod statcache;
#[path = "../../../fuzz/fuzz_targets/sync.rs"]
mod sync;
#[path = "../../../fuzz/fuzz_targets/wire.rs"]
mod wire;

/// A target's name, and its function.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 10] = [
    ("api", api::run),
    ("bucket", bucket::run),
    ("name_check", name_check::run),
    ("notes", notes::run),
    ("object_decode", object_decode::run),
    ("op_decode", op_decode::run),
    ("pack_read", pack_read::run),
    ("statcache", statcache::run),
    ("sync", sync::run),
    ("wire", wire::run),
];

/// How many changed inputs are tried for each input of the corpus.
const CHANGES: u64 = 1000;

/// Returns a copy that is cut, or in which a few bytes are changed, doubled or left out.
fn changed(input: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        let to = (at + rng.below(9) as usize).min(bytes.len());
        match rng.below(5) {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..to, rng.word().to_le_bytes())),
            2 => drop(bytes.drain(at..to)),
            3 => drop(bytes.splice(at..at, bytes[at..to].to_vec())),
            _ => bytes[at..to]
                .iter_mut()
                .for_each(|byte| *byte ^= 1 << rng.below(8)),
        }
    }
    bytes
}

#[test]
fn every_target_takes_its_corpus_and_small_changes_of_it() -> Result<(), Box<dyn std::error::Error>>
{
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (name, run) in TARGETS {
        let mut inputs = Vec::new();
        for entry in fs::read_dir(corpora.join(name))? {
            let path = entry?.path();
            inputs.push((path.file_name().map(ToOwned::to_owned), fs::read(&path)?));
        }
        assert!(!inputs.is_empty(), "{name} has a corpus");
        inputs.sort();
        run(&[]);
        for (n, (file, input)) in inputs.iter().enumerate() {
            for seed in 0..=CHANGES {
                let bytes = match seed {
                    0 => input.clone(),
                    seed => changed(input, &mut Rng::new(seed << 16 | n as u64)),
                };
                let done = std::panic::catch_unwind(|| run(&bytes));
                assert!(
                    done.is_ok(),
                    "{name}: {file:?}, change {seed}: {bytes:02x?}"
                );
            }
        }
    }
    Ok(())
}

/// Turns a target into a function `run` of its module. It stands below the modules so that they
/// import it by its name.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:block) => {
        pub fn run($data: &[u8]) {
            $body
        }
    };
}
