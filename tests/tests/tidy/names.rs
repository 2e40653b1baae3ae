//! Types are named by nouns: `FreeReport` tells a reader more than `Freed`.

/// Participles without a usual ending.
const IRREGULAR: [&str; 13] = [
    "Begun", "Done", "Found", "Given", "Held", "Kept", "Known", "Left", "Made", "Open", "Seen",
    "Sent", "Told",
];

/// Words with the ending of a participle that name a thing or a state.
const NOUNS: [&str; 9] = [
    "Cancelled",
    "Encoding",
    "Everything",
    "Listing",
    "Screen",
    "Setting",
    "Sharing",
    "String",
    "Warning",
];

/// Returns the line and the name of each type that a single participle names.
pub fn participles(code: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    for (n, line) in code.lines().enumerate() {
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            if matches!(word, "struct" | "enum" | "trait" | "type") {
                let name = words.next().unwrap_or("");
                let end = name.find(|c: char| !c.is_alphanumeric());
                let name = &name[..end.unwrap_or(name.len())];
                if is_participle(name) {
                    out.push((n + 1, name.to_owned()));
                }
                break;
            }
        }
    }
    out
}

/// A name of several words says what it is about, and may begin with a participle: `UploadedPacks`.
fn is_participle(name: &str) -> bool {
    let has_one_word = name.chars().filter(|c| c.is_uppercase()).count() == 1;
    let ends = ["ed", "en", "ing"].iter().any(|end| name.ends_with(end));
    has_one_word && (IRREGULAR.contains(&name) || ends && !NOUNS.contains(&name))
}
