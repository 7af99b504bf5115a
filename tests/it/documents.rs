//! Documents that are made from code are in step with it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use wrs_emulator::settings::ledger_markdown;

use crate::layers::files;
use crate::support::assert_in_step;

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR")))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_page_of_assumptions_has_the_ledger() {
    let page = read("docs/sandbox.md");
    let (before, _) = page.split_once("| setting |").expect("the table");
    let made = ledger_markdown();
    let (_, table) = made.split_once("| setting |").expect("the table");
    assert_in_step("docs/sandbox.md", &format!("{before}| setting |{table}"));
}

/// The architecture page names every module of the crate, and the files that it names are there.
#[test]
fn the_architecture_page_names_every_module() {
    let (page, modules) = (read("docs/internals/architecture.md"), read("src/lib.rs"));
    for line in modules.lines() {
        if let Some(module) = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';')) {
            assert!(page.contains(&format!("`{module}")), "docs/internals/architecture.md does not name `{module}`");
        }
    }
    let sources: Vec<String> =
        ["src", "tests"].iter().flat_map(|folder| files(folder)).map(|path| path.display().to_string()).collect();
    for named in page.split('`').skip(1).step_by(2).filter(|text| text.strip_suffix(".rs").is_some()) {
        assert!(
            sources.iter().any(|path| path.ends_with(&format!("/{named}")) || path == named),
            "there is no `{named}`"
        );
    }
}

/// The cookbook has a row for each shipped scenario, and plays it.
#[test]
fn the_cookbook_plays_every_shipped_scenario() {
    let page = read("docs/cookbook.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| [`")?.split('`').next());
    let rows: BTreeSet<&str> = rows.collect();
    assert_eq!(rows, wrs_emulator::scenario::built_in_names().collect::<BTreeSet<_>>());
    for name in rows {
        assert!(page.contains(&format!("| [`{name}`](../scenarios/{name}.toml) |")), "{name} links to its file");
        assert!(page.contains(&format!("$ wrs-emulator scenarios use {name}\n")), "{name} is not played");
    }
}

/// A call as the page of the control API shows it: its parameters, the fields of its body, and what the document says about it.
fn row(method: &str, path: &str, call: &Value) -> String {
    let required =
        |schema: &Value, name: &str| schema["required"].as_array().is_some_and(|all| all.contains(&name.into()));
    let parameters = call["parameters"].as_array().into_iter().flatten().filter(|parameter| parameter["in"] == "query");
    let parameters: Vec<&str> = parameters.filter_map(|parameter| parameter["name"].as_str()).collect();
    // `key` of a call with a body is named there.
    let schema = &call["requestBody"]["content"]["application/json"]["schema"];
    let fields = schema["properties"].as_object().into_iter().flat_map(Map::keys);
    let fields: Vec<String> =
        fields.map(|name| format!("\"{name}\"{}", if required(schema, name) { "" } else { "?" })).collect();
    let is_open = schema.is_object() && schema["additionalProperties"] != false;
    let fields: Vec<String> = fields.into_iter().chain(is_open.then(|| "…".to_owned())).collect();
    let parameters: Vec<String> = parameters
        .into_iter()
        .filter(|name| *name != "key" || !fields.iter().any(|field| field.starts_with("\"key\"")))
        .map(|name| format!("{name}="))
        .collect();
    let query = if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) };
    let body = if fields.is_empty() { String::new() } else { format!(" `{{{}}}`", fields.join(",")) };
    let (summary, about) =
        (call["summary"].as_str().expect("a summary"), call["description"].as_str().unwrap_or_default());
    let about = about.replace('\n', " ");
    let line = format!("| `{} {path}{query}`{body} | {summary}. {about}", method.to_ascii_uppercase());
    format!("{} |\n", line.trim_end())
}

/// The page of the control API has every call of its document.
#[test]
fn the_page_of_the_control_api_has_every_call() {
    let page = read("docs/control-api.md");
    let (begin, end) = ("<!-- tests/it/documents.rs writes from here … -->\n", "<!-- … to here -->\n");
    let (before, rest) = page.split_once(begin).expect("where the table begins");
    let (_, after) = rest.split_once(end).expect("where it ends");
    let paths = wrs_emulator::control::openapi_document()["paths"].as_object().expect("paths");
    let calls = paths.iter().flat_map(|(path, calls)| {
        let calls = calls.as_object().expect("operations").iter();
        calls.map(|(method, call)| row(method, path.trim_start_matches("/_emulator/"), call))
    });
    let table: String = calls.collect();
    let made = format!("{before}{begin}\n| call | does |\n| --- | --- |\n{table}\n{end}{after}");
    assert_in_step("docs/control-api.md", &made);
}

/// README and every page of `docs/`, with its path from the root.
fn pages() -> Vec<(String, String)> {
    let mut found = vec![("README.md".to_owned(), read("README.md"))];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"))).expect("a folder");
        for entry in entries {
            let entry = entry.expect("an entry");
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            match entry.path() {
                inner if inner.is_dir() => folders.push(path),
                file if file.extension().is_some_and(|extension| extension == "md") => {
                    found.push((path.clone(), read(&path)));
                }
                _ => {}
            }
        }
    }
    assert!(found.len() > 8, "the pages were found");
    found
}

/// A page without its blocks of code.
fn prose(page: &str) -> String {
    page.split("\n```").step_by(2).collect()
}

/// What a heading is called in a link: lower case, blanks as hyphens, without characters other than letters, digits, `-` and `_`.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A listing that begins with the path of an example is that file.
#[test]
fn listings_of_examples_are_the_files() {
    let mut seen = 0;
    for (path, page) in pages() {
        for listing in page.split("\n```").skip(1).step_by(2) {
            let Some((name, text)) = listing
                .split_once("\n# docs/examples/")
                .filter(|(language, _)| !language.contains('\n'))
                .and_then(|(_, rest)| rest.split_once('\n'))
            else {
                continue;
            };
            assert_eq!(format!("{text}\n"), read(&format!("docs/examples/{name}")), "{path}: {name}");
            seen += 1;
        }
    }
    assert!(seen > 0, "a listing was found");
}

#[test]
fn links_lead_somewhere() {
    let mut seen = 0;
    for (path, page) in pages() {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for target in prose(&page).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let led_to = if file.is_empty() { path.clone() } else { format!("{folder}/{file}") };
            let whole = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(led_to.trim_start_matches('/'));
            assert!(whole.exists(), "{path}: `{target}` does not exist");
            if !heading.is_empty() {
                let text = std::fs::read_to_string(&whole).expect("a page");
                let mut headings = text.lines().filter(|line| line.starts_with('#'));
                let there = headings.any(|line| anchor(line.trim_start_matches('#')) == heading);
                assert!(there, "{path}: `{target}` names no heading");
            }
            seen += 1;
        }
    }
    assert!(seen > 20, "the links were found: {seen}");
}

/// A page is linked from the index, or from the index of its own folder.
#[test]
fn the_index_names_every_page() {
    let index = read("docs/README.md");
    for (path, _) in pages() {
        let Some(name) = path.strip_prefix("docs/").filter(|name| *name != "README.md") else { continue };
        let folder = name.rsplit_once('/').filter(|(_, page)| *page != "README.md");
        let in_folder = folder.is_some_and(|(folder, page)| {
            let index = std::fs::read_to_string(format!("{}/docs/{folder}/README.md", env!("CARGO_MANIFEST_DIR")));
            index.is_ok_and(|index| index.contains(&format!("]({page})")))
        });
        assert!(in_folder || index.contains(&format!("]({name})")), "docs/README.md does not lead to {name}");
    }
}

/// Flags, settings and scripts that sentences name exist. Those in blocks of commands are run.
#[test]
fn flags_settings_and_scripts_on_pages_exist() {
    let flags: String = crate::help::all_help().iter().map(|(_, help)| help.as_str()).collect();
    let settings = ledger_markdown();
    let mut seen = 0;
    for (path, page) in pages() {
        let text = prose(&page);
        // Between the backticks of one line.
        for code in text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
            // After `-- ` stand the flags of a benchmark.
            if (code.starts_with("--") && !code.starts_with("-- ")) || code.starts_with("wrs-emulator") {
                for word in code.split([' ', '=', '|', '[']).filter(|word| word.starts_with("--") && word.len() > 2) {
                    let ours = flags.contains(&format!("{word} ")) || flags.contains(&format!("{word}\n"));
                    // Docker's own, on the page of the container, cargo's, next to its benchmarks, and that of the pytest plugin.
                    let there = ours || ["--add-host", "--bench", "--wrs-report"].contains(&word);
                    assert!(there, "{path}: `{code}` names {word}, which is no flag");
                    seen += 1;
                }
            }
            let section = code.split('.').next().unwrap_or_default();
            let is_setting =
                code.contains('.') && code.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '.' | '_'));
            if is_setting && matches!(section, "webhooks" | "rate_limit" | "keys" | "subscriptions" | "variation") {
                let there = settings.contains(&format!("| `{code}` |")) || code.starts_with("webhooks.custom.");
                assert!(there, "{path}: `{code}` is no setting");
                seen += 1;
            }
            let script = code.split([' ', '`']).find(|word| {
                let folder = word.split('/').next().unwrap_or_default();
                ["tests", "fuzz", "benches"].contains(&folder)
            });
            if let Some(script) = script.map(|script| script.split("::").next().unwrap_or_default()) {
                let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
                assert!(file.exists(), "{path}: there is no {script}");
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "they were found: {seen}");
}

/// `docs/llms.txt` lists the pages of the index in its order, as llmstxt.org describes. `UPDATE_EXPECTED=1` writes it anew.
#[test]
fn the_list_for_models_is_that_of_the_index() {
    let index = read("docs/README.md");
    let (_, table) = index.split_once("| page | about |").expect("the table of pages");
    let front = read("README.md").replace("**", "");
    let first = front.split("\n\n").nth(1).expect("the first paragraph");
    let [mut main, mut optional] = [String::new(), String::new()];
    for row in table.lines().filter_map(|line| line.strip_prefix("| [")) {
        let (link, about) = row.trim_end_matches([' ', '|']).split_once(") | ").expect("a page and its subject");
        let (title, path) = link.split_once("](").expect("a link");
        let is_detail = ["internals/", "findings"].iter().any(|detail| path.starts_with(detail));
        let list = if is_detail { &mut optional } else { &mut main };
        list.push_str(&format!("- [{title}]({path}): {about}\n"));
    }
    let made = format!(
        "# wrs-emulator\n\n> {}\n\n## Pages\n\n- [Front page](../README.md): the first two minutes, from start to first webhook\n{main}\n## Optional\n\n{optional}",
        first.replace('\n', " "),
    );
    assert_in_step("docs/llms.txt", &made);
}
