//! Command lines in settings: splitting them into words without a shell.

/// Splits a command line into words. Quotes keep words together, and a backslash takes away the
/// meaning of what follows it, as in a shell. The error says what is wrong.
pub fn words(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (letter, Some(open)) if letter == open => quote = None,
            ('\\', None | Some('"')) => {
                let next = letters.next().ok_or("it ends with a backslash")?;
                word.get_or_insert_default().push(next);
            }
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, None) if letter.is_whitespace() => words.extend(word.take()),
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    match (quote, words.is_empty()) {
        (Some(_), _) => Err("a quotation mark is not closed"),
        (None, true) => Err("it is empty"),
        (None, false) => Ok(words),
    }
}
