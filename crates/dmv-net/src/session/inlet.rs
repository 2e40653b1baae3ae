//! The reading end of a connection, as bytes. [`Link`](super::Link) reads frames from it; the
//! transports implement it.

use super::outlet::Plain;
use super::waiting::CountedStream;
use std::io::{self, Read};

/// The bytes by which a body grows before the next ones have arrived.
const READ_BYTES: usize = 256 << 10;
/// Room for them. The copy is fast in builds without optimisation, too, unlike `Vec::resize`.
static ROOM: [u8; READ_BYTES] = [0; READ_BYTES];

/// A source of a connection's bytes.
pub trait Inlet: Read {
    /// Appends bytes until `body` has `len` of them. Returns `false` if the stream ends before
    /// that.
    ///
    /// Calls `moved` with the number of bytes each time some arrive. Memory for `body` grows as
    /// they arrive.
    fn append(
        &mut self,
        body: &mut Vec<u8>,
        len: usize,
        moved: &mut dyn FnMut(usize),
    ) -> io::Result<bool>;
}

/// Reads once. Reads again if a signal interrupted the call.
pub fn read_some(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl<R: Read> Read for Plain<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> Inlet for Plain<R> {
    fn append(
        &mut self,
        body: &mut Vec<u8>,
        len: usize,
        moved: &mut dyn FnMut(usize),
    ) -> io::Result<bool> {
        while body.len() < len {
            let mut at = body.len();
            body.extend_from_slice(&ROOM[..READ_BYTES.min(len - at)]);
            while at < body.len() {
                match read_some(&mut self.0, &mut body[at..])? {
                    0 => return Ok(false),
                    n => {
                        moved(n);
                        at += n;
                    }
                }
            }
        }
        Ok(true)
    }
}

impl<S: Inlet> Inlet for CountedStream<S> {
    fn append(
        &mut self,
        body: &mut Vec<u8>,
        len: usize,
        moved: &mut dyn FnMut(usize),
    ) -> io::Result<bool> {
        let (stream, signs) = self.parts();
        stream.append(body, len, &mut |n| {
            signs.moved(n);
            moved(n);
        })
    }
}
