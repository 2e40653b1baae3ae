//! How fast the corpora are made: they must not be what a benchmark waits for.

use divan::counter::BytesCount;
use dmv_benches::corpus::{Content, Source};

fn main() {
    divan::main();
}

#[divan::bench(args = [Content::Random, Content::Text, Content::Zeros])]
fn fill(bencher: divan::Bencher, content: Content) {
    let mut source = Source::new(content, 1);
    let mut buffer = vec![0; 1 << 20];
    bencher
        .counter(BytesCount::of_slice(&buffer))
        .bench_local(|| source.fill(divan::black_box(&mut buffer)));
}
