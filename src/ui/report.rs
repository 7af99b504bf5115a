//! The report: the files of the page and a run document as one HTML file, which any browser opens without a network.
//!
//! The scripts are joined into one. That needs no bundler, as they keep to a few rules: imports are single lines at the top of a
//! file, everything is exported where it is declared, and no two files declare the same name.

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
    let modules: Vec<(&str, &str)> =
        ASSETS.iter().filter(|asset| asset.is_script()).map(|asset| (asset.name, asset.text())).collect();
    let script = join(&modules, "app.js").expect("a test joins the scripts");
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

/// One script of these modules, of which each comes after those that it imports.
fn join(modules: &[(&str, &str)], first: &str) -> Result<String, String> {
    let (mut script, mut done) = (String::new(), Vec::new());
    add(modules, first, &mut Vec::new(), &mut done, &mut script)?;
    match modules.iter().find(|(name, _)| !done.contains(name)) {
        Some((name, _)) => Err(format!("{name} is imported by no file")),
        None => Ok(script),
    }
}

/// Adds a module after those that it imports.
fn add<'m>(
    modules: &[(&'m str, &'m str)],
    name: &str,
    above: &mut Vec<&'m str>,
    done: &mut Vec<&'m str>,
    script: &mut String,
) -> Result<(), String> {
    if done.contains(&name) {
        return Ok(());
    }
    let (name, text) = modules.iter().find(|(known, _)| *known == name).ok_or(format!("there is no {name}"))?;
    if above.contains(name) {
        return Err(format!("{name} imports itself by way of {}", above.join(", ")));
    }
    above.push(name);
    let mut own = String::new();
    for line in text.lines() {
        if let Some(imported) = imported(line) {
            add(modules, imported.map_err(|problem| format!("{name}: {problem}: {line}"))?, above, done, script)?;
            continue;
        }
        let declared = line.strip_prefix("export ");
        if declared.is_some_and(|declared| {
            !["function ", "function* ", "const ", "class ", "async function "]
                .iter()
                .any(|word| declared.starts_with(word))
        }) {
            return Err(format!("{name}: an export that is not a declaration: {line}"));
        }
        own.push_str(declared.unwrap_or(line));
        own.push('\n');
    }
    above.pop();
    done.push(name);
    script.push_str(&own);
    Ok(())
}

/// The module that a line imports from; `None` if the line is not an import.
fn imported(line: &str) -> Option<Result<&str, &'static str>> {
    let rest = line.strip_prefix("import")?;
    if !rest.starts_with([' ', '{', '\'', '"', '(', '*']) {
        return None;
    }
    let names = rest.strip_prefix(" { ").and_then(|rest| rest.split_once(" } from './"));
    let from = names.and_then(|(names, from)| Some((names, from.strip_suffix("';")?)));
    match from {
        Some((names, _)) if names.split_whitespace().any(|word| word == "as") => Some(Err("a renaming import")),
        Some((_, from)) => Some(Ok(from)),
        None => Some(Err("not an import of one line")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn modules_are_joined_after_what_they_import() {
        let app = "// The start.\nimport { a, b } from './b.js';\nimport { c } from './c.js';\n\nexport class App {}\na(c);\n";
        let b = "import { c } from './c.js';\nexport async function a() {}\nexport function b() { return c; }\n";
        let c = "export const c = 1;\nconst own = 'export const';\n";
        let joined = join(&[("app.js", app), ("b.js", b), ("c.js", c)], "app.js").expect("a script");
        let expected = "const c = 1;\nconst own = 'export const';\nasync function a() {}\nfunction b() { return c; }\n\
                        // The start.\n\nclass App {}\na(c);\n";
        assert_eq!(joined, expected);
        for (text, problem) in [
            ("import { x as y } from './c.js';", "renaming"),
            ("import c from './c.js';", "not an import of one line"),
            ("import './c.js';", "not an import of one line"),
            ("import {\n", "not an import of one line"),
            ("export default 1;", "not a declaration"),
            ("export { a };", "not a declaration"),
            ("export let a;", "not a declaration"),
            ("import { x } from './d.js';", "there is no d.js"),
            ("import { x } from './app.js';", "app.js imports itself"),
            ("", "c.js is imported by no file"),
        ] {
            let found = join(&[("app.js", text), ("c.js", c)], "app.js").expect_err(text);
            assert!(found.contains(problem), "{text}: {found}");
        }
    }

    /// The rules that make the joining right. Some of them no other test would notice.
    #[test]
    fn the_scripts_keep_to_the_rules_of_the_joiner() {
        let mut names: BTreeMap<String, &str> = BTreeMap::new();
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
                assert!(!line.starts_with("await "), "{}: an await at the top level: {line}", asset.name);
                let declared = line.strip_prefix("export ").unwrap_or(line);
                let declared = declared.strip_prefix("async ").unwrap_or(declared);
                let word = ["function* ", "function ", "const ", "let ", "var ", "class "];
                let Some(rest) = word.iter().find_map(|word| declared.strip_prefix(word)) else { continue };
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '$')).collect();
                let known = names.insert(name.clone(), asset.name);
                assert_eq!(known, None, "`{name}` of {} is declared there, too", asset.name);
            }
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
        for outside in [" href=\"style.css\"", " href=\"icon.svg\"", " src=\"", "import {"] {
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
        assert!(page.len() < 150 * 1024 + document.len(), "{} bytes", page.len());
    }
}
