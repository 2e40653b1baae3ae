//! The messages of `dmv api`, as JSON-RPC 2.0 has them (<https://www.jsonrpc.org/specification>), one on a line.

use crate::failure::Failure;
use crate::ui::{KeptOutput, record};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};
use std::io::{self, BufRead, Read};

/// A request has at most so many bytes.
pub const MAX_REQUEST_BYTES: usize = 16 << 20;

/// The message is no JSON.
pub const NO_JSON: i32 = -32_700;
/// The message is no request.
pub const NO_REQUEST: i32 = -32_600;
/// There is no such method.
pub const NO_METHOD: i32 = -32_601;
/// The method has no such parameters.
pub const BAD_PARAMETERS: i32 = -32_602;
/// The program has a fault.
pub const INTERNAL: i32 = -32_603;
/// The command failed.
pub const FAILED: i32 = -32_000;
/// Too many requests wait.
pub const TOO_MANY: i32 = -32_001;

/// What a client asks for.
#[derive(Debug, PartialEq)]
pub struct Request {
    /// Returned with the answer. `None`: no answer is wanted.
    pub id: Option<Value>,
    /// The command: `log`, `remote.add`.
    pub method: String,
    /// Its options and arguments.
    pub params: Map<String, Value>,
    /// Whether the client takes bytes behind the lines of messages.
    pub raw: bool,
}

/// A request that is not carried out.
#[derive(Debug, PartialEq)]
pub struct Refusal {
    /// That of the request, as far as it can be told.
    pub id: Value,
    /// One of the numbers above.
    pub code: i32,
    /// What is wrong.
    pub message: String,
}

/// What comes from a client.
pub enum Line {
    /// A line without its end.
    Text(Vec<u8>),
    /// A line of more than [`MAX_REQUEST_BYTES`]. It was passed over.
    TooLong,
    /// The client has ended.
    End,
}

/// Reads a line.
pub fn read_line(input: &mut impl BufRead) -> io::Result<Line> {
    let mut line = Vec::new();
    let limit = MAX_REQUEST_BYTES as u64 + 1;
    input.by_ref().take(limit).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(Line::End);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Line::Text(line));
    }
    if line.len() <= MAX_REQUEST_BYTES {
        // The last line, without an end.
        return Ok(Line::Text(line));
    }
    drop(line);
    input.skip_until(b'\n')?;
    Ok(Line::TooLong)
}

/// Reads a request.
pub fn parse(line: &[u8]) -> Result<Request, Refusal> {
    let refuse = |id: Value, code, message: &str| Refusal {
        id,
        code,
        message: message.to_owned(),
    };
    let value: Value = serde_json::from_slice(line)
        .map_err(|e| refuse(Value::Null, NO_JSON, &format!("this line is no JSON: {e}")))?;
    let Value::Object(mut fields) = value else {
        let message = "a request is an object; several requests are several lines";
        return Err(refuse(Value::Null, NO_REQUEST, message));
    };
    let id = fields.remove("id");
    let known = match &id {
        None | Some(Value::Null | Value::String(_) | Value::Number(_)) => {
            id.clone().unwrap_or_default()
        }
        Some(_) => {
            let message = "an id is a text or a number";
            return Err(refuse(Value::Null, NO_REQUEST, message));
        }
    };
    if fields.get("jsonrpc") != Some(&json!("2.0")) {
        return Err(refuse(known, NO_REQUEST, "\"jsonrpc\" must be \"2.0\""));
    }
    let Some(Value::String(method)) = fields.remove("method") else {
        return Err(refuse(known, NO_REQUEST, "\"method\" must be a text"));
    };
    let mut params = match fields.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => {
            let message = "\"params\" must be an object: parameters have names";
            return Err(refuse(known, BAD_PARAMETERS, message));
        }
    };
    let raw = match params.remove("raw") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => return Err(refuse(known, BAD_PARAMETERS, "\"raw\" is true or false")),
    };
    Ok(Request {
        id,
        method,
        params,
        raw,
    })
}

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
    use std::io::Cursor;

    #[test]
    fn lines_end_at_a_line_feed_or_with_the_input() -> io::Result<()> {
        let long = "x".repeat(MAX_REQUEST_BYTES + 1);
        let mut input = Cursor::new(format!("a\n\n{long}\nb\n{}", &long[1..]));
        let mut seen = Vec::new();
        loop {
            match read_line(&mut input)? {
                Line::Text(text) => seen.push(text.len()),
                Line::TooLong => seen.push(usize::MAX),
                Line::End => break,
            }
        }
        assert_eq!(seen, [1, 0, usize::MAX, 1, MAX_REQUEST_BYTES]);
        Ok(())
    }

    #[test]
    fn what_is_no_request_is_refused_with_its_id() {
        for (text, id, code) in [
            ("{", Value::Null, NO_JSON),
            ("[]", Value::Null, NO_REQUEST),
            (r#"{"id":1,"method":"log"}"#, json!(1), NO_REQUEST),
            (r#"{"jsonrpc":"2.0","id":"a"}"#, json!("a"), NO_REQUEST),
            (
                r#"{"jsonrpc":"2.0","id":[],"method":"log"}"#,
                Value::Null,
                NO_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":2,"method":"log","params":["a"]}"#,
                json!(2),
                BAD_PARAMETERS,
            ),
        ] {
            let refused = parse(text.as_bytes()).expect_err(text);
            assert_eq!((refused.id, refused.code), (id, code), "{text}");
        }
        let parsed = parse(br#"{"jsonrpc":"2.0","method":"log","params":{"max":3}}"#);
        let parsed = parsed.expect("a request");
        assert_eq!((parsed.id, &parsed.method[..]), (None, "log"));
        assert_eq!(parsed.params["max"], json!(3));
    }

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
