//! The report: the files of the page and a run document as one HTML file, which any browser opens without a network.
//!
//! The scripts are joined into one. That needs no bundler, as they keep to a few rules: each comes after those that it imports, imports
//! are single lines, everything is exported where it is declared, and no two files declare the same name.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::assets::{ASSETS, Asset, find};

/// What comes before and after the document in a report.
pub const DATA_START: &str = "<script type=\"application/json\" id=\"run\">";
/// See [`DATA_START`].
pub const DATA_END: &str = "</script>";

/// The lines of `index.html` that a report replaces.
const STYLE_LINE: &str = "<link rel=\"stylesheet\" href=\"style.css\">\n";
const ICON_LINE: &str = "<link rel=\"icon\" href=\"icon.svg\">\n";
const SCRIPT_LINE: &str = "<script type=\"module\" src=\"app.js\"></script>\n";
const FIRST_LINE: &str = "<meta charset=\"utf-8\">\n";

/// The report of this run document, which is JSON.
pub fn report(document: &str) -> String {
    let text = |name: &str| find(name).map(Asset::text).unwrap_or_default();
    let script = join(ASSETS.iter().filter(|asset| asset.is_script()).map(Asset::text));
    let style = text("style.css");
    let policy = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; \
         base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'\">\n",
        hash(&script),
        hash(style)
    );
    let icon = STANDARD.encode(text("icon.svg"));
    let index = text("index.html");
    let (before, after) = index.split_once(SCRIPT_LINE).unwrap_or((index, ""));
    let before = before
        .replace(FIRST_LINE, &format!("{FIRST_LINE}{policy}"))
        .replace(STYLE_LINE, &format!("<style>{style}</style>\n"))
        .replace(ICON_LINE, &format!("<link rel=\"icon\" href=\"data:image/svg+xml;base64,{icon}\">\n"));
    let mut page = String::with_capacity(before.len() + script.len() + document.len() + document.len() / 8);
    page.push_str(&before);
    page.push_str(DATA_START);
    push_inert(&mut page, document);
    let _ = write!(page, "{DATA_END}\n<script type=\"module\">{script}</script>\n{after}");
    page
}

/// Adds JSON so that nothing in it can end the element that it is in. These characters occur in strings alone, where JSON may escape
/// them.
fn push_inert(page: &mut String, json: &str) {
    for c in json.trim_end().chars() {
        match c {
            '<' => page.push_str("\\u003c"),
            '\u{2028}' => page.push_str("\\u2028"),
            '\u{2029}' => page.push_str("\\u2029"),
            c => page.push(c),
        }
    }
}

/// What a policy names a script or style by.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// The scripts as one: without imports, and with declarations in place of exports.
fn join<'s>(scripts: impl Iterator<Item = &'s str>) -> String {
    let mut script = String::new();
    for line in scripts.flat_map(str::lines).filter(|line| !line.starts_with("import ")) {
        script.push_str(line.strip_prefix("export ").unwrap_or(line));
        script.push('\n');
    }
    script
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn scripts_are_joined_without_imports_and_exports() {
        let b = "export async function a() {}\nconst own = 'export const';\n";
        let app = "// The start.\nimport { a } from './b.js';\n\nexport class App {}\na();\n";
        let expected = "async function a() {}\nconst own = 'export const';\n// The start.\n\nclass App {}\na();\n";
        assert_eq!(join([b, app].into_iter()), expected);
    }

    /// The rules that make the joining right. Some of them no other test would notice.
    #[test]
    fn the_scripts_keep_to_the_rules_of_the_joiner() {
        let mut names: BTreeMap<String, &str> = BTreeMap::new();
        let mut before: Vec<&str> = Vec::new();
        for asset in ASSETS {
            assert!(!asset.source.contains('\r') && asset.source.ends_with('\n'), "{}: lines end in LF", asset.name);
            if !asset.is_script() {
                continue;
            }
            for banned in ["</script", "<!--"] {
                assert!(!asset.text().contains(banned), "{} contains `{banned}`", asset.name);
            }
            // Types in comments are written like dynamic imports.
            for line in asset.text().lines() {
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
                assert!(!line.starts_with("await "), "{}: an await at the top level: {line}", asset.name);
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
        assert!(!find("style.css").expect("a style").source.contains("</style"));
        let index = find("index.html").expect("a page").source;
        for line in [FIRST_LINE, STYLE_LINE, ICON_LINE, SCRIPT_LINE] {
            assert_eq!(index.matches(line).count(), 1, "index.html has once {line}");
        }
    }

    #[test]
    fn a_report_is_one_file_in_which_data_stays_data() {
        let hostile = "</script><script>alert(1)</script><!-- \u{2028}";
        let document = serde_json::to_string(&serde_json::json!({ "text": hostile })).expect("JSON");
        let page = report(&document);
        let (before, rest) = page.split_once(DATA_START).expect("the data begins");
        let (data, after) = rest.split_once(DATA_END).expect("the data ends");
        assert!(!data.contains('<') && !data.contains('\u{2028}'));
        let read: serde_json::Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(read["text"], hostile);
        for outside in [" href=\"style.css\"", " href=\"icon.svg\"", " src=\"", "\nimport {"] {
            assert!(!before.contains(outside) && !after.contains(outside), "a report needs nothing else: {outside}");
        }
        // The policy names exactly what is there.
        let between = |text: &str, start: &str, end: &str| {
            let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("no {start}"));
            rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0.to_owned()
        };
        let policy = between(before, "Content-Security-Policy\" content=\"", "\"");
        assert!(policy.contains(&format!("style-src '{}'", hash(&between(before, "<style>", "</style>")))), "{policy}");
        let script = between(after, "<script type=\"module\">", "</script>");
        assert!(policy.contains(&format!("script-src '{}'", hash(&script))), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("connect-src"), "{policy}");
        assert!(page.len() < 160 * 1024 + document.len(), "{} bytes", page.len());
    }
}
