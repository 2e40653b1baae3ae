//! Cutting and framing: what a commit does besides reading and hashing, on one thread.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use dmv_benches::corpus::{Content, Source};
use dmv_core::chunker::Cutter;
use dmv_core::object::ObjectType;
use dmv_core::store::{FRAME_TARGET_BYTES, FrameEncoder, FrameObject};

/// Bytes cut in one round: several times the longest chunk.
const CUT_BYTES: usize = 8 << 20;

fn main() {
    divan::main();
}

fn data(content: Content, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    Source::new(content, 1).fill(&mut out);
    out
}

#[divan::bench(args = [Content::Random, Content::Text, Content::Zeros])]
fn cut(bencher: Bencher, content: Content) {
    let data = data(content, CUT_BYTES);
    let cutter = Cutter::new();
    bencher.counter(BytesCount::new(CUT_BYTES)).bench(|| {
        let (mut at, mut chunks) = (0, 0);
        while at < data.len() {
            at += cutter.cut(black_box(&data[at..]));
            chunks += 1;
        }
        chunks
    });
}

#[divan::bench(args = [Content::Random, Content::Text])]
fn encode_frame(bencher: Bencher, content: Content) {
    let data = data(content, FRAME_TARGET_BYTES);
    let id = ObjectType::Chunk.id_of(&data);
    let len = FRAME_TARGET_BYTES as u32;
    let objects = [FrameObject {
        id,
        ty: ObjectType::Chunk,
        len,
    }];
    let mut encoder = FrameEncoder::default();
    bencher
        .counter(BytesCount::new(FRAME_TARGET_BYTES))
        .bench_local(|| {
            let frame = encoder
                .encode(black_box(&data), &objects)
                .expect("memory suffices");
            frame.payload.len()
        });
}
