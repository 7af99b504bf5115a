//! The URL of a subscription: what is refused, and the form in which two URLs are compared.

use url::{Host, Url};

/// Longest URL accepted, in characters.
pub const LONGEST_URL: usize = 2048;

/// Checks a subscription's URL; the reasons are written for the message of a 422. `allow_http` is the setting of that name.
///
/// The answer is the WHATWG-normalised form: host in lower case and IDNA, default port dropped. It is used for
/// comparison and dialling; a client gets back what it wrote.
pub fn check_webhook_url(text: &str, allow_http: bool) -> Result<Url, &'static str> {
    if text.is_empty() {
        return Err("must not be empty");
    }
    if text.chars().count() > LONGEST_URL {
        return Err("must be at most 2048 characters long");
    }
    // The WHATWG parser drops or rewrites these; a receiver would never see what the client wrote.
    if text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err("must not contain spaces, control characters or backslashes");
    }
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("https") => {}
        Some("http") if allow_http => {}
        Some("http") => {
            return Err(
                "must use https (to try plain http against the emulator: `wrs-emulator profile set webhooks.allow_http=true`, or subscribe an https URL and lead it there with `wrs-emulator forwards add`)",
            );
        }
        _ => return Err("must be an absolute https URL"),
    }
    let authority =
        text.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    if authority.is_empty() {
        return Err("must name a host");
    }
    if authority.contains('@') {
        return Err("must not contain user information");
    }
    if text.contains('#') {
        return Err("must not contain a fragment");
    }
    let url = Url::parse(text).map_err(|_| "is not a valid URL")?;
    match url.host() {
        Some(Host::Domain(domain)) if domain.trim_matches('.').is_empty() => return Err("must name a host"),
        // The WHATWG parser takes a few characters that no resolver does.
        Some(Host::Domain(domain)) if !domain.bytes().all(is_host_byte) => {
            return Err("must name a host of letters, digits, hyphens and dots");
        }
        Some(_) => {}
        None => return Err("must name a host"),
    }
    if url.port() == Some(0) {
        return Err("must not use port 0");
    }
    Ok(url)
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_urls_compare_in_normal_form() {
        for (text, normal) in [
            ("https://example.com", "https://example.com/"),
            ("HTTPS://EXAMPLE.com:443/Hooks?a=1", "https://example.com/Hooks?a=1"),
            ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
            ("https://[::1]:8443/x", "https://[::1]:8443/x"),
            ("https://127.1/", "https://127.0.0.1/"),
            ("https://a.b/%20", "https://a.b/%20"),
        ] {
            assert_eq!(check_webhook_url(text, false).map(|url| url.to_string()), Ok(normal.to_owned()), "{text}");
        }
        assert!(check_webhook_url("http://localhost:3000/x", true).is_ok());
    }

    #[test]
    fn refusals_say_why() {
        for (text, reason) in [
            ("", "empty"),
            ("http://example.com", "https"),
            ("ftp://example.com", "https"),
            ("example.com/x", "https"),
            ("https:example.com", "https"),
            ("https:///example.com", "host"),
            ("https://", "host"),
            ("https://.", "host"),
            ("https://?x", "host"),
            ("https://user@example.com", "user information"),
            ("https://user:pw@example.com", "user information"),
            ("https://@example.com", "user information"),
            ("https://example.com/#f", "fragment"),
            ("https://example.com/#", "fragment"),
            ("https://example.com/a b", "spaces"),
            (" https://example.com/", "spaces"),
            ("https://exa\tmple.com/", "spaces"),
            ("https://example.com\\x", "backslashes"),
            ("https://example.com:0/", "port 0"),
            ("https://example.com:65536/", "valid"),
            ("https://example.com:x/", "valid"),
            ("https://[::1/", "valid"),
            ("https://exa%00mple.com/", "valid"),
            ("https://a.a*", "letters"),
            ("https://a!b.example/", "letters"),
        ] {
            let found = check_webhook_url(text, false).expect_err(text);
            assert!(found.contains(reason), "{text}: {found}");
        }
        let longest = format!("https://a.example/{}", "x".repeat(LONGEST_URL - 18));
        assert!(check_webhook_url(&longest, false).is_ok());
        assert!(check_webhook_url(&format!("{longest}x"), false).is_err());
    }
}
