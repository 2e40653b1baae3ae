//! The messages of `dmv api`, as JSON-RPC 2.0 has them (<https://www.jsonrpc.org/specification>), one on a line.

use crate::api::request::Refusal;
use crate::failure::Failure;
use crate::ui::{KeptOutput, record};
use data_encoding::BASE64;
use serde_json::{Value, json};

/// There is no such method.
pub const NO_METHOD: i32 = -32_601;
/// The program has a fault.
pub const INTERNAL: i32 = -32_603;
/// The command failed.
pub const FAILED: i32 = -32_000;
/// Too many requests wait.
pub const TOO_MANY: i32 = -32_001;

/// The answer to a request whose command has run.
pub fn answer(id: &Value, exit: u8, kept: &KeptOutput) -> Vec<u8> {
    let mut out = head(id, kept);
    out.extend_from_slice(format!(",\"result\":{{\"exit\":{exit}").as_bytes());
    add_output(&mut out, kept);
    out.extend_from_slice(b"}}\n");
    add_raw(out, kept)
}

/// The begin of an answer.
fn head(id: &Value, kept: &KeptOutput) -> Vec<u8> {
    let raw = match kept.data.len() {
        bytes if bytes > 0 && kept.is_raw => format!(",\"raw\":{bytes}"),
        _ => String::new(),
    };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id}{raw}").into_bytes()
}

/// Adds the bytes that a message announces.
fn add_raw(mut message: Vec<u8>, kept: &KeptOutput) -> Vec<u8> {
    if kept.is_raw {
        message.extend_from_slice(&kept.data);
    }
    message
}

/// A message that a piece of data follows.
pub fn piece(id: &Value, bytes: usize) -> Vec<u8> {
    let params = json!({ "id": id });
    line(&json!({ "jsonrpc": "2.0", "method": "data", "params": params, "raw": bytes }))
}

/// Adds what a command has written as fields of an object. The documents are lines of JSON already.
fn add_output(out: &mut Vec<u8>, kept: &KeptOutput) {
    for (name, lines) in [("output", &kept.documents), ("notes", &kept.remarks)] {
        out.extend_from_slice(format!(",\"{name}\":[").as_bytes());
        let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
        out.extend(lines.iter().map(|b| if *b == b'\n' { b',' } else { *b }));
        out.push(b']');
    }
    if !kept.data.is_empty() && !kept.is_raw {
        out.extend_from_slice(b",\"data\":\"");
        let at = out.len();
        out.resize(at + BASE64.encode_len(kept.data.len()), 0);
        BASE64.encode_mut(&kept.data, &mut out[at..]);
        out.push(b'"');
    }
}

/// What has happened, which a running request tells as a line of JSON.
pub fn event(id: &Value, told: &[u8]) -> Vec<u8> {
    let head =
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{{\"id\":{id},\"event\":");
    [head.as_bytes(), told, b"}}\n"].concat()
}

/// The answer to a request whose command has failed.
pub fn failure(id: &Value, failure: &Failure, kept: &KeptOutput) -> Vec<u8> {
    let mut data = record(failure);
    let message = data["message"].take();
    if let Some(fields) = data.as_object_mut() {
        fields.retain(|name, _| name != "type" && name != "message");
    }
    let mut data = data.to_string().into_bytes();
    data.pop();
    add_output(&mut data, kept);
    let mut out = head(id, kept);
    let error = format!(",\"error\":{{\"code\":{FAILED},\"message\":{message},\"data\":");
    out.extend_from_slice(error.as_bytes());
    out.extend_from_slice(&data);
    out.extend_from_slice(b"}}}\n");
    add_raw(out, kept)
}

/// The answer to a request that is not carried out.
pub fn refusal(refused: &Refusal) -> Vec<u8> {
    let Refusal { id, code, message } = refused;
    let error = json!({ "code": code, "message": message });
    line(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))
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

    #[test]
    fn an_answer_has_the_documents_as_they_were_written() -> serde_json::Result<()> {
        let kept = KeptOutput {
            documents: b"{\"a\":1}\n{\"b\":\"\\n\"}\n".to_vec(),
            data: b"\0\xff".to_vec(),
            ..KeptOutput::default()
        };
        let answered: Value = serde_json::from_slice(&answer(&json!("x"), 1, &kept))?;
        let output = json!([{ "a": 1 }, { "b": "\n" }]);
        let result = json!({ "exit": 1, "output": output, "notes": [], "data": "AP8=" });
        assert_eq!(
            answered,
            json!({ "jsonrpc": "2.0", "id": "x", "result": result })
        );
        let failed = Failure::new("busy", 11, "it is busy").hint("dmv status");
        let answered: Value =
            serde_json::from_slice(&failure(&json!(7), &failed, &KeptOutput::default()))?;
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
}
