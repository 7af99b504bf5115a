//! Documents that are made from code are in step with it.

use std::collections::BTreeSet;

use wrs_emulator::profile::ledger_markdown;

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR")))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_page_of_assumptions_is_the_ledger() {
    assert_eq!(
        read("docs/assumptions.md"),
        ledger_markdown(),
        "run: cargo run -- assumptions --markdown > docs/assumptions.md"
    );
}

/// The architecture page names every module of the crate.
#[test]
fn the_architecture_page_names_every_module() {
    let (page, modules) = (read("docs/internals/architecture.md"), read("src/lib.rs"));
    for line in modules.lines() {
        if let Some(module) = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';')) {
            assert!(page.contains(&format!("`{module}")), "docs/internals/architecture.md does not name `{module}`");
        }
    }
}

/// The cookbook has a recipe for each shipped scenario, and shows lines that are in its file.
#[test]
fn the_cookbook_shows_what_is_in_the_shipped_files() {
    let page = read("docs/cookbook.md");
    let recipes: Vec<&str> = page.split("\n### ").skip(1).collect();
    let mut names: Vec<&str> = recipes.iter().filter_map(|recipe| recipe.lines().next()).collect();
    names.sort_unstable();
    let mut shipped: Vec<&str> = wrs_emulator::scenario::built_in_names().collect();
    shipped.sort_unstable();
    assert_eq!(names, shipped);
    for recipe in recipes {
        let name = recipe.lines().next().expect("a heading");
        let file = read(&format!("scenarios/{name}.toml"));
        let heart = recipe.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a heart");
        for line in heart.lines() {
            assert!(file.contains(line), "scenarios/{name}.toml has no line `{line}`");
        }
        assert!(recipe.contains(&format!("$ wrs-emulator scenarios use {name}\n")), "{name} is not played");
    }
}

/// The page of the control API names every call of its document, and no other.
#[test]
fn the_page_of_the_control_api_names_every_call() {
    let page = read("docs/control-api.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let mut reported = BTreeSet::new();
    for row in rows {
        let calls = row.split(" | ").next().unwrap_or_default();
        for code in calls.split('`').skip(1).step_by(2) {
            let Some((method, path)) =
                code.split_once(' ').filter(|(method, _)| method.chars().all(char::is_uppercase))
            else {
                continue;
            };
            reported.insert(format!("{method} {}", path.split('?').next().unwrap_or_default()));
        }
    }
    let document = wrs_emulator::control::openapi_document();
    let mut known = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        let path = path.trim_start_matches("/_emulator/");
        let methods = operations.as_object().expect("operations").keys().filter(|method| *method != "head");
        known.extend(methods.map(|method| format!("{} {path}", method.to_ascii_uppercase())));
    }
    assert_eq!(reported, known, "docs/control-api.md has the first, the document the second");
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

/// What a heading is called in a link: lower case, blanks as hyphens, without what is neither letter, digit, `-` nor `_`.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
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

/// Each folder of pages has an index that names its pages, and the index of the folders in it.
#[test]
fn the_index_names_every_page() {
    for (path, _) in pages() {
        let Some((folder, name)) = path.rsplit_once('/').filter(|_| path != "docs/README.md") else { continue };
        let (folder, name) = match (name, folder.rsplit_once('/')) {
            ("README.md", Some((above, inner))) => (above, format!("{inner}/README.md")),
            _ => (folder, name.to_owned()),
        };
        let index = read(&format!("{folder}/README.md"));
        assert!(index.contains(&format!("]({name})")), "{folder}/README.md does not lead to {name}");
    }
}

/// Flags and knobs that sentences name are there. Those in blocks of commands are run.
#[test]
fn flags_and_knobs_on_pages_are_known() {
    let (flags, knobs) = (read("docs/cli.md"), read("docs/assumptions.md"));
    let mut seen = 0;
    for (path, page) in pages() {
        let text = prose(&page);
        // Between the backticks of one line.
        for code in text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
            // After `-- ` stand the flags of a benchmark.
            if (code.starts_with("--") && !code.starts_with("-- ")) || code.starts_with("wrs-emulator") {
                for word in code.split([' ', '=', '|', '[']).filter(|word| word.starts_with("--") && word.len() > 2) {
                    let ours = flags.contains(&format!("{word} ")) || flags.contains(&format!("{word}\n"));
                    // Docker's own, on the page of the container, and cargo's, beside its benchmarks.
                    let there = ours || ["--add-host", "--bench"].contains(&word);
                    assert!(there, "{path}: `{code}` names {word}, which is no flag");
                    seen += 1;
                }
            }
            let section = code.split('.').next().unwrap_or_default();
            let is_knob = code.contains('.') && code.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '.' | '_'));
            if is_knob
                && matches!(section, "webhooks" | "rate_limit" | "keys" | "subscriptions" | "preview" | "variation")
            {
                let there = knobs.contains(&format!("| `{code}` |")) || code.starts_with("webhooks.custom.");
                assert!(there, "{path}: `{code}` is no knob");
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "flags and knobs were found: {seen}");
}

/// Every promise on the page of defences names tests and scripts that exist.
#[test]
fn each_defence_names_tests_that_exist() {
    let page = read("docs/internals/defences.md");
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| promise") && !line.starts_with("| ---"))
        .collect();
    assert!(rows.len() >= 40, "the rows were found: {}", rows.len());
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for row in rows {
        let held_by = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let mut named = 0;
        for name in held_by.split('`').skip(1).step_by(2) {
            match name.split_once("::") {
                Some((path, test)) => {
                    let text = read(path);
                    let at = text.find(&format!("fn {test}(")).unwrap_or_else(|| panic!("{path} has no test {test}"));
                    // Directly above: the attribute of a test, of a property in a block of them, or both.
                    let before = text[..at].trim_end_matches(|c: char| c != '\n').trim_end().rsplit('\n').next();
                    let is_test =
                        before.is_some_and(|line| line.trim() == "#[test]" || line.trim().starts_with("#[tokio::test"));
                    assert!(is_test, "{path}::{test} is no test");
                }
                // A script may be named with the step that it runs.
                None => assert!(root.join(name.split(' ').next().unwrap_or_default()).is_file(), "there is no {name}"),
            }
            named += 1;
        }
        assert!(named > 0, "nothing holds: {row}");
    }
}

/// Every script that the page of proofs names is there and can be started.
#[test]
fn each_proof_names_commands_that_exist() {
    let page = read("docs/internals/fault-proof.md");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = 0;
    for word in page.split(|c: char| c.is_whitespace() || c == '`') {
        let is_script = std::path::Path::new(word).extension().is_some_and(|extension| extension == "sh");
        if is_script && (word.starts_with("tests/clients/") || word.starts_with("fuzz/")) {
            assert!(root.join(word).is_file(), "docs/internals/fault-proof.md names {word}");
            found += 1;
        }
    }
    assert!(found >= 4, "{found} commands were found");
}

/// A page's link with its title and what it is about, for `llms.txt`.
fn entry(folder: &str, row: &str) -> Option<(String, String)> {
    let (title, rest) = row.split_once('[')?.1.split_once("](")?;
    let (name, rest) = rest.split_once(')').filter(|(name, _)| !name.contains('#'))?;
    let path = format!("{folder}{name}");
    let cells: Vec<&str> = rest.split('|').map(str::trim).collect();
    let about = match cells.as_slice() {
        ["", about, ""] => (*about).to_owned(),
        _ => sentence(&read(&format!("docs/{path}"))),
    };
    Some((path.clone(), format!("- [{title}]({path}): {about}\n")))
}

/// The first sentence of a page, without emphasis and links.
fn sentence(page: &str) -> String {
    let prose = prose(page);
    let paragraph = prose.split("\n\n").find(|part| part.starts_with(char::is_alphabetic)).expect("a paragraph");
    let sentence = paragraph.split_inclusive(". ").next().unwrap_or_default().replace('\n', " ");
    // Of a link, its text.
    let parts: Vec<&str> = sentence.split("](").collect();
    let rest = parts.iter().skip(1).filter_map(|part| Some(part.split_once(')')?.1));
    let plain: String = parts.first().copied().into_iter().chain(rest).collect();
    plain.replace(['[', '*'], "").trim().trim_end_matches(['.', ':']).to_owned()
}

/// `docs/llms.txt` names every page in the order of the index, as llmstxt.org describes. Run with `UPDATE_EXPECTED=1` to write it anew.
#[test]
fn the_file_beside_the_pages_names_them_all() {
    let index = read("docs/README.md");
    let (_, pages_about) = index.split_once("| page | about |").expect("the table of pages");
    let [mut main, mut optional] = [Vec::new(), Vec::new()];
    for row in pages_about.lines().filter(|line| line.starts_with("| [")) {
        let found = entry("", row).expect("a row about a page");
        let folder = found.0.strip_suffix("README.md").map(str::to_owned);
        let is_detail = ["internals/", "findings/"].iter().any(|folder| found.0.starts_with(folder));
        let list = if is_detail { &mut optional } else { &mut main };
        list.push(found);
        let inner = folder.as_ref().map(|folder| read(&format!("docs/{folder}README.md"))).unwrap_or_default();
        for row in inner.lines().filter(|line| line.starts_with("| [") || line.starts_with("- [")) {
            let found = entry(folder.as_deref().unwrap_or_default(), row).expect("a row about a page");
            if !list.contains(&found) && !list.iter().any(|(path, _)| *path == found.0) {
                list.push(found);
            }
        }
    }
    optional.push((
        "cli.md".to_owned(),
        "- [Command line](cli.md): every command and flag, generated from `--help-all`\n".to_owned(),
    ));
    let lines = |list: &[(String, String)]| list.iter().map(|(_, line)| line.as_str()).collect::<String>();
    let made = format!(
        "# wrs-emulator\n\n> {}.\n\n## Pages\n\n- [Front page](../README.md): the first two minutes, from start to first webhook\n{}\n## Optional\n\n{}",
        sentence(&read("README.md")),
        lines(&main),
        lines(&optional)
    );
    let path = format!("{}/docs/llms.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(&path, &made).expect("the file is written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == made, "docs/llms.txt has changed: run the tests once with UPDATE_EXPECTED=1");
    let links: BTreeSet<&str> = there.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    for link in &links {
        assert!(
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(link).is_file(),
            "{link} does not exist"
        );
    }
    for (path, _) in pages() {
        let link = path.strip_prefix("docs/").unwrap_or("../README.md");
        assert!(link == "README.md" || links.contains(link), "docs/llms.txt does not lead to {path}");
    }
}
