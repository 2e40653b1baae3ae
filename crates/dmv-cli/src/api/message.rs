//! The messages of `dmv api`, as JSON-RPC 2.0 has them (<https://www.jsonrpc.org/specification>), one on a line.

use crate::api::request::Refusal;
use crate::failure::Failure;
use crate::ui::{KeptOutput, record};
use data_encoding::BASE64;
use serde_json::{Value, json};
use std::io::{self, Write};

/// There is no such method.
pub const NO_METHOD: i32 = -32_601;
/// The program has a fault.
pub const INTERNAL: i32 = -32_603;
/// The command failed.
pub const FAILED: i32 = -32_000;
/// Too many requests wait.
pub const TOO_MANY: i32 = -32_001;

/// Data is encoded in pieces of so many bytes.
const BASE64_BYTES: usize = 16 << 10;

/// An answer to a request.
pub struct Answer {
    /// That of the request.
    pub id: Value,
    /// What has come of it.
    pub outcome: Outcome,
}

/// What has come of a request.
pub enum Outcome {
    /// The command has run, with this exit code.
    Done(u8, KeptOutput),
    /// The command has failed.
    Failed(Failure, KeptOutput),
    /// It was not carried out, for a reason with one of the numbers of JSON-RPC.
    Refused(i32, String),
}

impl Answer {
    /// Writes the answer. It is never in memory as a whole: a client that reads slowly may have asked for much.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        match &self.outcome {
            Outcome::Done(exit, kept) => {
                write_head(out, &self.id, kept)?;
                write!(out, ",\"result\":{{\"exit\":{exit}")?;
                write_output(out, kept)?;
                out.write_all(b"}}\n")?;
                write_raw(out, kept)
            }
            Outcome::Failed(failure, kept) => {
                write_head(out, &self.id, kept)?;
                write_failure(out, failure, kept)?;
                out.write_all(b"}}}\n")?;
                write_raw(out, kept)
            }
            Outcome::Refused(code, message) => {
                let error = json!({ "code": code, "message": message });
                out.write_all(&line(
                    &json!({ "jsonrpc": "2.0", "id": self.id, "error": error }),
                ))
            }
        }
    }
}

impl From<Refusal> for Answer {
    fn from(refused: Refusal) -> Answer {
        let Refusal { id, code, message } = refused;
        let outcome = Outcome::Refused(code, message);
        Answer { id, outcome }
    }
}

/// Writes the begin of an answer.
fn write_head(out: &mut impl Write, id: &Value, kept: &KeptOutput) -> io::Result<()> {
    write!(out, "{{\"jsonrpc\":\"2.0\",\"id\":{id}")?;
    match kept.data.len() {
        bytes if bytes > 0 && kept.is_raw => write!(out, ",\"raw\":{bytes}"),
        _ => Ok(()),
    }
}

/// Writes the bytes that a message announces.
fn write_raw(out: &mut impl Write, kept: &KeptOutput) -> io::Result<()> {
    if kept.is_raw {
        out.write_all(&kept.data)?;
    }
    Ok(())
}

/// A message that a piece of data follows.
pub fn piece(id: &Value, bytes: usize) -> Vec<u8> {
    let params = json!({ "id": id });
    line(&json!({ "jsonrpc": "2.0", "method": "data", "params": params, "raw": bytes }))
}

/// Writes what a command has written as fields of an object. The documents are lines of JSON already.
fn write_output(out: &mut impl Write, kept: &KeptOutput) -> io::Result<()> {
    for (name, lines) in [("output", &kept.documents), ("notes", &kept.remarks)] {
        write!(out, ",\"{name}\":[")?;
        let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
        for (n, line) in lines.split(|b| *b == b'\n').enumerate() {
            let comma: &[u8] = if n > 0 { b"," } else { b"" };
            out.write_all(comma)?;
            out.write_all(line)?;
        }
        out.write_all(b"]")?;
    }
    if !kept.data.is_empty() && !kept.is_raw {
        out.write_all(b",\"data\":\"")?;
        let mut text = [0; BASE64_BYTES];
        for bytes in kept.data.chunks(BASE64_BYTES / 4 * 3) {
            let text = &mut text[..BASE64.encode_len(bytes.len())];
            BASE64.encode_mut(bytes, text);
            out.write_all(text)?;
        }
        out.write_all(b"\"")?;
    }
    Ok(())
}

/// What has happened, which a running request tells as a line of JSON.
pub fn event(id: &Value, told: &[u8]) -> Vec<u8> {
    let head =
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{{\"id\":{id},\"event\":");
    [head.as_bytes(), told, b"}}\n"].concat()
}

/// Writes an error, without the ends of its two objects.
fn write_failure(out: &mut impl Write, failure: &Failure, kept: &KeptOutput) -> io::Result<()> {
    let mut data = record(failure);
    let message = data["message"].take();
    if let Some(fields) = data.as_object_mut() {
        fields.retain(|name, _| name != "type" && name != "message");
    }
    let data = data.to_string();
    let data = data.strip_suffix('}').unwrap_or(&data);
    write!(
        out,
        ",\"error\":{{\"code\":{FAILED},\"message\":{message},\"data\":{data}"
    )?;
    write_output(out, kept)
}

/// A message that answers nothing.
pub fn notification(method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

fn line(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(id: Value, outcome: Outcome) -> Result<Value, Box<dyn std::error::Error>> {
        let mut out = Vec::new();
        Answer { id, outcome }.write(&mut out)?;
        Ok(serde_json::from_slice(&out)?)
    }

    #[test]
    fn an_answer_has_the_documents_as_they_were_written() -> Result<(), Box<dyn std::error::Error>>
    {
        let kept = KeptOutput {
            documents: b"{\"a\":1}\n{\"b\":\"\\n\"}\n".to_vec(),
            data: b"\0\xff".to_vec(),
            ..KeptOutput::default()
        };
        let answered = written(json!("x"), Outcome::Done(1, kept))?;
        let output = json!([{ "a": 1 }, { "b": "\n" }]);
        let result = json!({ "exit": 1, "output": output, "notes": [], "data": "AP8=" });
        assert_eq!(
            answered,
            json!({ "jsonrpc": "2.0", "id": "x", "result": result })
        );
        let failed = Failure::new("busy", 11, "it is busy").hint("dmv status");
        let answered = written(json!(7), Outcome::Failed(failed, KeptOutput::default()))?;
        let data = json!({
            "code": "busy", "exit": 11, "hint": "dmv status", "output": [], "notes": [],
        });
        let error = json!({ "code": FAILED, "message": "it is busy", "data": data });
        assert_eq!(
            answered,
            json!({ "jsonrpc": "2.0", "id": 7, "error": error })
        );
        Ok(())
    }

    #[test]
    fn long_data_is_one_text() -> Result<(), Box<dyn std::error::Error>> {
        let data = dmv_random::Rng::new(1).bytes(2 * BASE64_BYTES + 1);
        let text = BASE64.encode(&data);
        let kept = KeptOutput {
            data,
            ..KeptOutput::default()
        };
        let answered = written(json!(1), Outcome::Done(0, kept))?;
        assert!(answered["result"]["data"] == text);
        Ok(())
    }
}
