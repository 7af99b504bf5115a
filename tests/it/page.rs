//! The page under `/_emulator/`: its files, who gets them, and how a browser finds it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use wrs_emulator::Emulator;
use wrs_emulator::ui::ASSETS;

use crate::support::{Answer, builder, send, start, started, text, view};

const HTML: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");

async fn fetch(emulator: &Emulator, path: &str, headers: &[(&str, &str)]) -> Answer {
    send(emulator, "GET", path, headers, "").await
}

#[tokio::test]
async fn every_file_is_served_with_its_type_and_a_strict_policy() {
    let emulator = start().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ui/assets");
    let entries = std::fs::read_dir(&folder).expect("the folder is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    let of_page = ASSETS.iter().map(|asset| asset.name).filter(|name| !name.starts_with("docs/"));
    let mut listed: Vec<&str> = of_page.collect();
    names.sort_unstable();
    listed.sort_unstable();
    assert_eq!(names, listed, "src/ui/mod.rs lists the files of the folder");
    for name in names {
        let answer = fetch(&emulator, &format!("/_emulator/{name}"), &[]).await;
        assert_eq!(answer.status, 200, "{name}");
        let source = std::fs::read_to_string(folder.join(&name)).expect("the file");
        let served = text(&answer.body);
        // Each is the rest of a line of the file: types within it are not served.
        let mut lines = source.lines();
        let is_part = |line: &str, known: &str| {
            let mut rest = known.chars();
            line.trim().chars().all(|c| rest.any(|other| other == c))
        };
        assert!(
            served.lines().all(|line| lines.any(|known| is_part(line, known))),
            "{name} has lines of the file alone"
        );
        assert!(source.len() < 2 * served.len() + 2000, "{name}: {} of {} bytes", served.len(), source.len());
        let expected = match name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("js") => "text/javascript; charset=utf-8",
            other => panic!("{name}: a file of an unknown kind {other:?}"),
        };
        assert_eq!(answer.header("content-type"), Some(expected), "{name}");
        assert_eq!(answer.header("cache-control"), Some("no-cache"), "{name}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{name}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{name}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert_eq!(
            policy,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
             trusted-types 'none'"
        );
        let tag = answer.header("etag").expect("a tag").to_owned();
        for known in [tag.as_str(), "*", &format!("\"other\", W/{tag}")] {
            let again = fetch(&emulator, &format!("/_emulator/{name}"), &[("if-none-match", known)]).await;
            assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(&*tag)), "{name} {known}");
        }
        let other = fetch(&emulator, &format!("/_emulator/{name}"), &[("if-none-match", "\"other\"")]).await;
        assert_eq!(other.status, 200, "{name}");
        let head = send(&emulator, "HEAD", &format!("/_emulator/{name}"), &[], "").await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{name}");
        assert_eq!(head.header("content-length"), Some(&*answer.body.len().to_string()), "{name}");
        let refused = send(&emulator, "POST", &format!("/_emulator/{name}"), &[], "").await;
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")), "{name}");
    }
    assert_eq!(
        fetch(&emulator, "/_emulator/", &[]).await.body,
        fetch(&emulator, "/_emulator/index.html", &[]).await.body
    );
}

#[tokio::test]
async fn the_documentation_is_served_with_links_that_lead_somewhere() {
    let emulator = start().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let entries = std::fs::read_dir(&folder).expect("the folder is there").map(|entry| entry.expect("an entry").path());
    let files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    let mut pages = BTreeMap::new();
    for file in &files {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        let answer = fetch(&emulator, &format!("/_emulator/docs/{name}"), &[]).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")), "{name}");
        pages.insert(name.to_owned(), text(&answer.body));
    }
    let mut followed = 0;
    for (name, page) in &pages {
        assert!(!page.contains("<script") && !page.contains("<img"), "{name}: quoted markup stays text");
        assert!(page.contains("<h1 id=") && page.contains("<p>") && !page.contains("```"), "{name}: it is HTML");
        for link in page.split("<a href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            // The way back to the page.
            if link == "../" {
                continue;
            }
            let (target, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = &pages[if target.is_empty() { name } else { target }];
            assert!(heading.is_empty() || target.contains(&format!(" id=\"{heading}\">")), "{name}: {link}");
            followed += 1;
        }
    }
    assert!(followed > 40, "{followed} links");
}

/// Beside the page, `/` answers a browser alone; a client that lost its way still gets the envelope.
#[tokio::test]
async fn a_browser_is_led_to_the_page_and_a_client_is_not() {
    let emulator = start().await;
    for path in ["/", "/_emulator", "/_emulator?x=1"] {
        let answer = fetch(&emulator, path, &[HTML]).await;
        assert_eq!((answer.status, answer.header("location")), (302, Some("_emulator/")), "{path}");
    }
    assert_eq!(fetch(&emulator, "/_emulator", &[]).await.status, 302);
    let requests = async || view(&emulator, "requests?key=*").await;
    assert_eq!(requests().await["data"], json!([]), "a browser's visit is no request");
    for headers in [
        &[][..],
        &[("accept", "*/*")],
        &[("accept", "application/json")],
        &[HTML, ("authorization", "Bearer sk_test_local")],
    ] {
        let answer = fetch(&emulator, "/", headers).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{headers:?}");
    }
    let posted = send(&emulator, "POST", "/", &[HTML], "").await;
    assert_eq!(posted.status, 404);
    assert_eq!(requests().await["data"].as_array().map(Vec::len), Some(5));
}

#[tokio::test]
async fn the_page_lives_where_the_control_api_does() {
    let control = "127.0.0.1:0".parse().expect("an address");
    let emulator = started(builder().configure(|settings| settings.control_listen = Some(control))).await;
    for path in ["/", "/_emulator", "/_emulator/", "/_emulator/app.js"] {
        assert_eq!(fetch(&emulator, path, &[HTML]).await.status, 404, "{path} of the emulated API");
    }
    let host = emulator.control_url().trim_start_matches("http://").to_owned();
    for (path, status) in [("/", "302"), ("/_emulator", "302"), ("/_emulator/", "200"), ("/_emulator/app.js", "200")] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\nConnection: close\r\n\r\n");
        let answer = crate::support::raw_at(&host, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
}

#[tokio::test]
async fn the_files_need_no_token_but_the_guards_of_host_and_site_apply() {
    let with_token = |token: &str| {
        let token = Some(token.to_owned());
        builder().configure(|settings| settings.control_token = token)
    };
    let emulator = started(with_token("secret")).await;
    let (page, script) = ("/_emulator/", "/_emulator/app.js");
    let cross = ("sec-fetch-site", "cross-site");
    let opened = [cross, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    for (path, headers, status) in [
        (page, &[][..], 200),
        (script, &[("sec-fetch-site", "same-origin")], 200),
        ("/_emulator/run", &[], 401),
        (page, &opened, 200),
        ("/_emulator", &opened, 302),
        (script, &opened, 400),
        (page, &[cross, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")], 400),
        (page, &[cross], 400),
        (script, &[cross, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "script")], 400),
        (script, &[("sec-fetch-site", "same-site")], 400),
        (script, &[("origin", "https://evil.example")], 400),
    ] {
        assert_eq!(fetch(&emulator, path, headers).await.status, status, "{path} {headers:?}");
    }
    for path in [page, script, "/_emulator"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
        let answer = crate::support::raw(&emulator, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 421 "), "{path}: {answer}");
    }
}

/// The rules by which the scripts can be joined for a report. Some of them no other test would notice.
#[test]
fn the_scripts_keep_to_the_rules_of_the_report() {
    let source = |name: &str| wrs_emulator::ui::find(name).expect("a file of the page").source;
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    let mut before: Vec<&str> = Vec::new();
    for asset in ASSETS.iter() {
        assert!(!asset.source.contains('\r') && asset.source.ends_with('\n'), "{}: lines end in LF", asset.name);
        if !asset.is_script() {
            continue;
        }
        for banned in ["</script", "<!--"] {
            assert!(!asset.text.to_ascii_lowercase().contains(banned), "{} contains `{banned}`", asset.name);
        }
        // Types in comments are written like dynamic imports.
        for line in asset.text.lines() {
            let code: String =
                line.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code)).collect();
            assert!(!code.contains("import(") && !code.contains("import.meta"), "{}: {line}", asset.name);
        }
        for line in asset.source.lines() {
            if line.starts_with("import") {
                let names = line.strip_prefix("import { ").and_then(|rest| rest.split_once(" } from './"));
                let from = names.filter(|(names, _)| !names.split(' ').any(|word| word == "as"));
                let from = from.and_then(|(_, from)| from.strip_suffix("';"));
                assert!(from.is_some_and(|from| before.contains(&from)), "{}: {line}", asset.name);
            }
            assert!(
                !line.starts_with("await ") && !line.starts_with("for await"),
                "{}: an await at the top level: {line}",
                asset.name
            );
            let exported = line.strip_prefix("export ");
            let declared = exported.unwrap_or(line);
            let declared = declared.strip_prefix("async ").unwrap_or(declared);
            let word = ["function* ", "function ", "const ", "let ", "var ", "class "];
            let Some(rest) = word.iter().find_map(|word| declared.strip_prefix(word)) else {
                assert_eq!(exported, None, "{}: an export that is not a declaration", asset.name);
                continue;
            };
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '$')).collect();
            let known = names.insert(name.clone(), asset.name);
            assert_eq!(known, None, "`{name}` of {} is declared there, too", asset.name);
        }
        before.push(asset.name);
    }
    assert!(!source("style.css").contains("</style"));
    let index = source("index.html");
    for line in [
        "<meta charset=\"utf-8\">\n",
        "<link rel=\"stylesheet\" href=\"style.css\">\n",
        "<link rel=\"icon\" href=\"icon.svg\">\n",
        "<noscript>",
        "<script type=\"module\" src=\"app.js\"></script>\n",
    ] {
        assert_eq!(index.matches(line).count(), 1, "index.html has once {line}");
    }
}
