//! The requests of clients: reading lines, and what they ask for. It knows nothing of commands, so that a fuzz target can
//! have it alone.

use serde_json::{Map, Value, json};
use std::io::{self, BufRead, Read};

/// A request has at most so many bytes.
pub const MAX_REQUEST_BYTES: usize = 16 << 20;

/// The message is no JSON.
pub const NO_JSON: i32 = -32_700;
/// The message is no request.
pub const NO_REQUEST: i32 = -32_600;
/// The method has no such parameters.
pub const BAD_PARAMETERS: i32 = -32_602;

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
    /// The length of its line.
    pub bytes: usize,
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
        bytes: line.len(),
    })
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
}
