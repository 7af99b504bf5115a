//! Estimates the memory that a JSON text needs once it is read. A text of bounded length may be a value that needs a hundred times as much, such as
//! millions of empty objects; it is refused before it is read.

/// Maximum bytes that a document or an answer may take, and JSON that is the text of a field in one.
pub const MOST: usize = 512 * 1024 * 1024;
pub const MAX_INNER: usize = 64 * 1024 * 1024;
/// Upper estimates, in bytes, of the memory of any value, and of the additional memory of an object.
const VALUE: usize = 100;
const OBJECT: usize = 500;

/// Refuses a text that would need more memory. Knows only where texts and values begin, so it need not be valid JSON.
pub fn check_expansion(json: &[u8], most: usize) -> Result<(), String> {
    let (mut cost, mut in_text, mut is_escaped) = (json.len(), false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' => cost += VALUE + OBJECT,
            b'[' | b',' => cost += VALUE,
            _ => {}
        }
    }
    if cost <= most {
        return Ok(());
    }
    Err(format!("it would need more than {} MiB of memory once it is read", most / (1024 * 1024)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_expand_are_refused() {
        let many = |part: &str| format!("[{}]", vec![part; 3_000_000].join(","));
        for (json, is_refused) in [
            (many("{}"), true),
            (many("[[]]"), true),
            (many("1"), false),
            (format!("\"{}\"", "{,\\\"[".repeat(3_000_000)), false),
            (format!("{{\"a\":\"{}\"}}", "x".repeat(60_000_000)), false),
        ] {
            assert_eq!(check_expansion(json.as_bytes(), MOST).is_err(), is_refused, "{}", &json[..20]);
        }
    }
}
