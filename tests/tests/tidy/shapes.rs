//! Shapes of types and signatures that grow unless somebody looks: structs with many fields, and tuples as
//! parameters. A tuple that goes from function to function is a noun that is missing.

use crate::code::line_at;

/// The most fields of a struct.
pub const MAX_FIELDS: usize = 16;

/// How many parameters may be tuples with one name, and how many may be tuples that the signature takes apart.
/// Both numbers only become smaller.
pub const MAX_TUPLES: (usize, usize) = (5, 44);

/// Returns the line, the name and the number of fields of each struct with more than [`MAX_FIELDS`].
pub fn wide_structs(code: &str) -> Vec<(usize, String, usize)> {
    let mut out = Vec::new();
    for (at, _) in code.match_indices("struct ") {
        let rest = &code[at + "struct ".len()..];
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
        let Some(open) = rest.find(['{', ';', '(']) else {
            continue;
        };
        if !rest[open..].starts_with('{') {
            continue;
        }
        let fields = parts(&rest[open + 1..], '}');
        let fields = fields.iter().filter(|part| part.contains(':')).count();
        if fields > MAX_FIELDS {
            out.push((line_at(code, at), name, fields));
        }
    }
    out
}

/// Returns the line of each parameter that is a tuple, and whether the signature takes it apart.
pub fn tuple_parameters(code: &str) -> Vec<(usize, bool)> {
    let mut out = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = &code[at + "fn ".len()..];
        let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let Some(name) = name.filter(|len| is_word && *len > 0) else {
            continue;
        };
        let mut from = name;
        if rest[name..].starts_with('<') {
            from += 1 + parts(&rest[name + 1..], '>').join(",").len();
        }
        let Some(open) = rest[from..].find('(') else {
            continue;
        };
        for parameter in parts(&rest[from + open + 1..], ')') {
            let is_pattern = parameter.trim_start().starts_with('(');
            let pattern_end = parameter.find(')').filter(|_| is_pattern).unwrap_or(0);
            let Some(colon) = parameter[pattern_end..].find(": ") else {
                continue;
            };
            let ty = parameter[pattern_end + colon + 2..].trim_start_matches('&');
            let ty = ty.trim_start_matches("mut ");
            if ty.starts_with('(') && ty.contains(',') {
                out.push((line_at(code, at), pattern_end > 0));
            }
        }
    }
    out
}

/// Splits text at the commas outside of brackets, up to the bracket `end`.
fn parts(text: &str, end: char) -> Vec<&str> {
    let (mut out, mut depth, mut start) = (Vec::new(), 0usize, 0);
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            _ if c == end && depth == 0 => {
                out.push(&text[start..at]);
                return out;
            }
            // The arrow of a result is no bracket.
            '>' if before == '-' || before == '=' => {}
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    out
}
