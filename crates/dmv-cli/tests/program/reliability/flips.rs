//! A bit of a repository's files is flipped, and the program runs: its answer is right, or it says no.

use super::trial::{Book, Known, Tally, fresh_seed, run};
use super::world::World;
use crate::place::Outcome;
use dmv_random::{Rng, number, seed};
use std::fs;
use std::path::{Path, PathBuf};

/// Files of a repository itself. Settings are the user's text: another value is another wish.
fn files(dir: &Path, out: &mut Vec<PathBuf>) -> Outcome {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files(&entry.path(), out)?;
        } else if entry.file_name() != "config.toml" && entry.metadata()?.len() > 0 {
            out.push(entry.path());
        }
    }
    out.sort();
    Ok(())
}

/// Flips a bit, runs the command, and flips it back.
fn flip(world: &World, one: &Known, rng: &mut Rng) -> Outcome {
    world.reset(one.case.parts)?;
    let mut found = Vec::new();
    for repo in one.before.repos.keys() {
        let (dir, inner) = (world.now().join(repo), world.now().join(repo).join(".dmv"));
        if inner.is_dir() {
            files(&inner, &mut found)?;
        } else if dir.join("packs").is_dir() {
            files(&dir, &mut found)?;
        }
    }
    let path = &found[rng.below(found.len() as u64) as usize];
    let mut bytes = fs::read(path)?;
    let (at, bit) = (rng.below(bytes.len() as u64), rng.below(8));
    bytes[at as usize] ^= 1 << bit;
    fs::write(path, bytes)?;
    let result = answer(world, one);
    let name = path.strip_prefix(world.now()).unwrap_or(path).display();
    result.map_err(|e| format!("bit {bit} of byte {at} of {name}: {e}").into())
}

fn answer(world: &World, one: &Known) -> Outcome {
    let ended = run(world, world.dmv(&one.case.words()), None)?;
    let printed = fs::read(world.beside("printed"))?;
    if one.case.only_reads() && ended.code == Some(0) && printed != one.printed {
        return Err("it prints something else".into());
    }
    one.check_answer(world, &ended)
}

fn flip_bits(count: u64, seed: u64) -> Outcome {
    let (world, mut book) = (World::new()?, Book::new());
    let mut tally = Tally::new("flips-program", seed);
    for n in 0..count {
        let mut rng = Rng::new(seed.wrapping_add(n));
        let one = book.get(&world, rng.below(book.len()))?;
        if one.before.repos.is_empty() {
            continue;
        }
        let done = flip(&world, one, &mut rng);
        let what = || {
            format!(
                "DMV_SEED={} DMV_COUNT=1: {}",
                seed.wrapping_add(n),
                one.case.args
            )
        };
        tally.count(what, done);
    }
    tally.finish("flipped bits")
}

/// A few in the ordinary run.
#[test]
fn a_flipped_bit_gives_no_wrong_answer() -> Outcome {
    flip_bits(number("DMV_COUNT", 10), seed(1))
}

/// `DMV_COUNT` of them, 20,000 otherwise.
#[test]
#[ignore = "half an hour"]
fn many_flipped_bits_give_no_wrong_answer() -> Outcome {
    flip_bits(number("DMV_COUNT", 20_000), fresh_seed())
}
