//! BLAKE3 as DMV uses it, on one thread, at the sizes objects have.

use divan::counter::BytesCount;
use dmv_benches::corpus::{Content, Source};
use dmv_core::hash::chunk_id;

fn main() {
    divan::main();
}

#[divan::bench(args = [1 << 10, 16 << 10, 64 << 10, 256 << 10])]
fn chunk(bencher: divan::Bencher, bytes: usize) {
    let mut data = vec![0; bytes];
    Source::new(Content::Random, 1).fill(&mut data);
    bencher
        .counter(BytesCount::new(bytes))
        .bench(|| chunk_id(divan::black_box(&data)));
}
