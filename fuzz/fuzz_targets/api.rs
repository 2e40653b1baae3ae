//! Lines of requests for `dmv api` are read within their bound, and each is a request or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use request::{BAD_PARAMETERS, Line, MAX_REQUEST_BYTES, NO_JSON, NO_REQUEST, parse, read_line};
use serde_json::{Value, json};

#[path = "../../crates/dmv-cli/src/api/request.rs"]
mod request;

/// Whether a message may be about this id.
fn is_id(id: &Value) -> bool {
    matches!(id, Value::Null | Value::String(_) | Value::Number(_))
}

fuzz_target!(|data: &[u8]| {
    let (mut input, mut lines) = (data, 0);
    while let Ok(Line::Text(line)) = read_line(&mut input) {
        lines += 1;
        assert!(lines <= data.len() && line.len() <= MAX_REQUEST_BYTES && !line.contains(&b'\n'));
        match parse(&line) {
            Ok(asked) => {
                assert!(asked.id.as_ref().is_none_or(is_id));
                let mut params = asked.params.clone();
                params.insert("raw".to_owned(), json!(asked.raw));
                let mut again =
                    json!({ "jsonrpc": "2.0", "method": asked.method, "params": params });
                if let Some(id) = &asked.id {
                    again["id"] = id.clone();
                }
                // A fraction may come back as its neighbour.
                let again = parse(again.to_string().as_bytes()).expect("it was a request");
                assert!(again.method == asked.method && again.raw == asked.raw);
                assert!(again.params.keys().eq(asked.params.keys()));
            }
            Err(refused) => {
                assert!(is_id(&refused.id) && !refused.message.is_empty());
                assert!([NO_JSON, NO_REQUEST, BAD_PARAMETERS].contains(&refused.code));
            }
        }
    }
    assert!(input.is_empty());
});
