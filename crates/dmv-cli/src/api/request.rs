//! The requests of clients: reading lines, and what they ask for. It knows nothing of commands, so that a fuzz target can
//! have it alone.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use std::fmt;
use std::io::{self, BufRead, Read};

/// A request has at most so many bytes.
pub const MAX_REQUEST_BYTES: usize = 16 << 20;

/// Values that the lists of a request may have together. The parser of command lines needs half a kilobyte for each.
pub const MAX_VALUES: usize = 100_000;

/// Values that are no elements of lists: the fields of a request and its parameters.
const MAX_FIELDS: usize = 1_000;

/// A value takes so much memory besides its text.
const VALUE_BYTES: usize = 64;

/// A text has at most so many bytes. Every path and every message is shorter.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

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
    /// About how much memory it takes.
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
    let mut limits = Limits::default();
    let value = read_value(line, &mut limits)
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
    if let Some(message) = limits.exceeded {
        return Err(refuse(known, BAD_PARAMETERS, message));
    }
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
        bytes: line.len() + limits.values() * VALUE_BYTES,
    })
}

fn read_value(line: &[u8], limits: &mut Limits) -> serde_json::Result<Value> {
    let mut input = serde_json::Deserializer::from_slice(line);
    let value = limits.deserialize(&mut input)?;
    input.end()?;
    Ok(value)
}

/// Reads a value as far as the limits allow. What is beyond them is passed over, so that it needs no memory and the `id`
/// behind it is found.
#[derive(Default)]
struct Limits {
    elements: usize,
    fields: usize,
    /// Which limit was exceeded.
    exceeded: Option<&'static str>,
}

impl Limits {
    /// Returns how many values were read.
    fn values(&self) -> usize {
        self.elements + self.fields
    }
}

impl<'de> DeserializeSeed<'de> for &mut Limits {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Limits {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        if text.len() > MAX_TEXT_BYTES {
            self.exceeded = Some("a text has at most 1 MiB");
            return Ok(Value::Null);
        }
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while self.elements < MAX_VALUES {
            let Some(value) = list.next_element_seed(&mut *self)? else {
                return Ok(values.into());
            };
            self.elements += 1;
            values.push(value);
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            self.exceeded =
                Some("a request has at most 100,000 values in lists: make several requests");
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = object.next_key_seed(&mut *self)? {
            self.fields += 1;
            let has_room = self.fields <= MAX_FIELDS + self.elements;
            match name {
                Value::String(name) if has_room || name == "id" => {
                    fields.insert(name, object.next_value_seed(&mut *self)?);
                }
                _ => {
                    object.next_value::<IgnoredAny>()?;
                    self.exceeded
                        .get_or_insert("a request has at most 1,000 fields");
                }
            }
        }
        Ok(fields.into())
    }
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
    fn what_is_beyond_a_limit_takes_no_memory_and_the_id_behind_it_is_found() {
        let request = |params: &str| {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"log","params":{params},"id":7}}"#);
            parse(line.as_bytes())
        };
        let list = |count: usize| {
            format!(
                r#"{{"paths":[{}"a"]}}"#,
                "{\"b64\":\"\"},".repeat(count - 1)
            )
        };
        let text = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes));
        let fields = |count: usize| {
            let fields: Vec<_> = (0..count).map(|n| format!(r#""{n}":0"#)).collect();
            format!("{{{}}}", fields.join(","))
        };
        assert!(request(&list(MAX_VALUES)).is_ok());
        assert!(request(&text(MAX_TEXT_BYTES)).is_ok());
        assert!(request(&fields(MAX_FIELDS - 4)).is_ok());
        for (params, told) in [
            (list(MAX_VALUES + 1), "100,000 values"),
            (
                format!(r#"{{"a":{},"b":[1]}}"#, &list(MAX_VALUES)),
                "100,000 values",
            ),
            (text(MAX_TEXT_BYTES + 1), "1 MiB"),
            (
                format!(r#"{{"{}":0}}"#, "x".repeat(MAX_TEXT_BYTES + 1)),
                "1 MiB",
            ),
            (fields(MAX_FIELDS + 1), "1,000 fields"),
            (
                format!(r#"{{"a":{}1{}}}"#, "[".repeat(100), "]".repeat(99)),
                "no JSON",
            ),
        ] {
            let refused = request(&params).expect_err(told);
            let id = if told == "no JSON" {
                Value::Null
            } else {
                json!(7)
            };
            assert_eq!(refused.id, id, "{told}");
            assert!(refused.message.contains(told), "{}", refused.message);
        }
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
        let line = br#"{"jsonrpc":"2.0","method":"log","params":{"paths":["a","b"]}}"#;
        let bytes = parse(line).map(|parsed| parsed.bytes);
        assert_eq!(bytes, Ok(line.len() + 6 * VALUE_BYTES));
    }
}
