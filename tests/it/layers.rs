//! The direction rules: a file uses only its own layer or a lower one; every file states its purpose.

use std::path::{Path, PathBuf};

use crate::circles::uses;

/// Layers by the first part of a path below `src/`, lowest first. `docs/internals/architecture.md` shows the same table.
const LAYERS: &[(&str, u8)] = &[
    ("advice", 0),
    ("contract", 0),
    ("util/captured", 0),
    ("util/duration", 0),
    ("util/expansion", 0),
    ("util/flag", 0),
    ("util/har", 0),
    ("util/header_lines", 0),
    ("util/html", 0),
    ("util/pipe", 0),
    ("util/schema", 0),
    ("util/toml_messages", 0),
    ("util/wording", 0),
    ("settings", 1),
    ("clock", 1),
    ("redact", 1),
    ("state/budget", 1),
    ("state/quota", 1),
    ("util/file", 1),
    ("util/process", 1),
    ("diagnostic", 2),
    ("scenario", 2),
    ("state/journal", 2),
    ("state/workspace", 2),
    ("util/net", 3),
    ("util/tasks", 3),
    ("state/engine", 3),
    ("http", 4),
    ("webhook", 4),
    ("findings", 5),
    ("cases", 5),
    ("ui", 5),
    ("control", 6),
    ("app", 7),
    ("cli", 7),
    ("lab", 7),
];

/// Folders whose modules have separate layers.
const SPLIT: &[&str] = &["state", "util"];

/// Every Rust file below `folder`, as a path relative to the crate.
pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder)).expect("the folder is there")
        {
            let path = folder.join(entry.expect("an entry").file_name());
            let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join(&path);
            if whole.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("the file can be read")
}

/// `src/http/mod.rs` and `src/http.rs` both belong to `http`; `src/state/journal/mod.rs` to `state/journal`.
fn module(path: &Path) -> String {
    let inner = path.strip_prefix("src").expect("a file in src").with_extension("");
    let mut parts = inner.iter().map(|part| part.to_string_lossy().into_owned());
    let first = parts.next().expect("a file in src");
    match parts.next() {
        Some(second) if SPLIT.contains(&first.as_str()) => format!("{first}/{second}"),
        _ => first,
    }
}

/// Tests in their own file, next to the tested one.
pub(crate) fn is_tests(path: &Path) -> bool {
    path.to_string_lossy().ends_with("_tests.rs")
}

fn layer(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

#[test]
fn every_file_uses_its_own_layer_or_a_lower_one() {
    let layer_of = |parts: &[String]| {
        let module = module(&Path::new("src").join(parts.join("/")));
        layer(&module).unwrap_or_else(|| panic!("{} belongs to no layer: add `{module}` to the table", parts.join("/")))
    };
    let parents = ["lib", "main"].into_iter().chain(SPLIT.iter().copied()).map(|name| vec![name.to_owned()]);
    let parents: Vec<_> = parents.collect();
    let mut seen = 0;
    for (file, used) in uses().iter().filter(|(file, _)| !parents.contains(file)) {
        let own = layer_of(file);
        for other in used {
            assert!(layer_of(other) <= own, "{} (layer {own}) uses {}", file.join("/"), other.join("/"));
            seen += 1;
        }
    }
    assert!(seen > 100, "what files use was found");
    let main = read(Path::new("src/main.rs"));
    assert!(main.lines().count() <= 30 && main.contains("wrs_emulator::cli::main()"), "main.rs only hands over");
}

/// Whoever repairs the emulator never opens the lab; `.ci/nightly lab` compiles without it.
#[test]
fn only_the_lists_name_the_lab() {
    let is_lab = |parts: &[String]| parts.first().is_some_and(|first| first == "lab");
    let outside = uses().into_iter().filter(|(file, used)| !is_lab(file) && used.iter().any(|used| is_lab(used)));
    let outside: Vec<String> = outside.map(|(file, _)| file.join("/")).collect();
    assert_eq!(outside, ["cli"], "only the list of commands names the lab");
}

#[test]
fn the_architecture_shows_these_layers() {
    let page = read(Path::new("docs/internals/architecture.md"));
    // A row has a layer, and in the next cell the modules that it is about.
    let rows = page.lines().filter_map(|line| {
        let (layer, rest) = line.strip_prefix("| ")?.split_once(" | `")?;
        Some((rest.split_once("` | ")?.0, layer.parse().ok()?))
    });
    let modules = rows.flat_map(|(modules, layer)| modules.split("`, `").map(move |module| (module, layer)));
    let (mut shown, mut checked): (Vec<(&str, u8)>, _) = (modules.collect(), LAYERS.to_vec());
    shown.sort_unstable();
    checked.sort_unstable();
    assert_eq!(shown, checked);
}

/// Layers 0 to 2 are synchronous: the clock's `sleep_until` is the exception.
#[test]
fn the_inner_layers_do_not_wait() {
    for path in files("src") {
        let inner = layer(&module(&path)).is_some_and(|layer| layer <= 2);
        if inner && module(&path) != "clock" {
            let text = read(&path);
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            assert!(!code.contains("async fn") && !code.contains(".await"), "{} waits", path.display());
        }
    }
}

/// The machine's time and entropy are read in one file. A simulation has its own.
#[test]
fn time_and_entropy_are_read_in_one_file() {
    let reads = |path: &PathBuf| path.ends_with("clock/machine.rs") || path.ends_with("simulated.rs");
    for path in files("src").into_iter().filter(|path| !reads(path) && !is_tests(path)) {
        let text = read(&path);
        for banned in ["SystemTime::now", "Instant::now", "Timestamp::now", "SysRng", "rand::rng()", "getrandom"] {
            assert!(!text.contains(banned), "{} uses {banned}", path.display());
        }
    }
}

#[test]
fn every_file_opens_by_saying_what_it_is_for() {
    for path in files("src").into_iter().chain(files("tests")).chain(files("benches")) {
        assert!(read(&path).starts_with("//!"), "{} has no head comment", path.display());
    }
}

/// The files of the modules that a file declares.
fn declared(file: &Path) -> Vec<PathBuf> {
    let parent = file.parent().expect("a folder");
    let is_root = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| file.ends_with(name));
    let folder = if is_root { parent.to_owned() } else { file.with_extension("") };
    let (mut found, mut given) = (Vec::new(), None);
    for line in read(file).lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("#[path = \"") {
            given = path.strip_suffix("\"]").map(|path| parent.join(path));
        } else if let Some((before, name)) = line.strip_suffix(';').and_then(|line| line.split_once("mod "))
            && (before.is_empty() || before.starts_with("pub"))
        {
            let inside = folder.join(name).join("mod.rs");
            let is_folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(&inside).is_file();
            let beside = folder.join(name).with_extension("rs");
            found.push(given.take().unwrap_or(if is_folder { inside } else { beside }));
        }
    }
    found
}

/// A file that no other declares is not compiled, and its tests never run.
#[test]
fn every_file_is_a_module() {
    for (folder, roots) in [("src", &["src/lib.rs", "src/main.rs"][..]), ("tests/it", &["tests/it/main.rs"])] {
        let mut compiled: Vec<PathBuf> = roots.iter().map(PathBuf::from).collect();
        let mut next = 0;
        while let Some(file) = compiled.get(next) {
            let below = declared(file).into_iter().filter(|path| path.starts_with(folder));
            compiled.extend(below.collect::<Vec<_>>());
            next += 1;
        }
        for path in files(folder) {
            assert!(compiled.contains(&path), "{} is no module", path.display());
        }
    }
}

/// A scenario runs nothing and reads nothing: files reach it through the watcher alone.
#[test]
fn scenarios_run_nothing_and_read_files_in_one_place() {
    for path in files("src").into_iter().filter(|path| !is_tests(path)) {
        if !["scenario", "diagnostic"].contains(&module(&path).as_str()) {
            continue;
        }
        let text = read(&path);
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        assert!(!code.contains("std::process") && !code.contains("Command::"), "{} runs a program", path.display());
        let reads = code.contains("std::fs") || code.contains("File::open") || code.contains("crate::util::file");
        assert!(!reads || path.ends_with("scenario/watch.rs"), "{} reads a file", path.display());
    }
}

/// Opening a pipe waits, and a look before the opening proves nothing: one file does it right.
#[test]
fn files_are_opened_in_one_place() {
    for path in files("src").into_iter().filter(|path| !is_tests(path) && module(path) != "util/file") {
        let text = read(&path);
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for banned in [
            // Not `StateFile::open`, which goes through that file.
            " File::open",
            "fs::File::open",
            "File::create(",
            "OpenOptions",
            "fs::read(",
            "fs::read_to",
            "fs::write(",
            "fs::metadata",
            "pem_file",
        ] {
            assert!(!code.contains(banned), "{} has `{banned}`", path.display());
        }
    }
}

/// A caller who guesses byte by byte must not learn from the time that an answer takes.
#[test]
fn what_proves_who_calls_is_compared_in_constant_time() {
    for file in ["src/control/guard.rs", "src/contract/signature/verify.rs"] {
        let code = read(Path::new(file));
        let code = code.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
        assert!(code.contains(".ct_eq("), "{file} compares by itself");
        for banned in ["== token", "token ==", "sent ==", "== sent", "got ==", "== got"] {
            assert!(!code.contains(banned), "{file} has `{banned}`");
        }
    }
}

#[test]
fn unsafe_code_is_forbidden_and_versions_are_locked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(read(&root.join("src/lib.rs")).contains("#![forbid(unsafe_code)]"));
    assert!(read(&root.join("Cargo.toml")).contains("unsafe_code = \"forbid\""));
    assert!(root.join("Cargo.lock").is_file() && !read(&root.join(".gitignore")).contains("Cargo.lock"));
}

/// Where texts of other programs are read, because their libraries give nothing else, and what still reads the emulator's own.
const READ_TEXTS: [(&str, &str); 2] = [
    ("src/util/toml_messages.rs", "messages of serde and of the TOML parser"),
    ("src/cli/parse.rs", "messages of clap"),
];

/// What a program must know is a field, so that a message can be worded anew.
#[test]
fn nothing_searches_a_message_that_this_program_made() {
    const MESSAGES: [&str; 11] = [
        "message", "sentence", "remedy", "summary", "hint", "detail", "problem", "advice", "command", "note", "notice",
    ];
    const SEARCHES: [&str; 7] =
        ["contains(", "starts_with(", "ends_with(", "split_once(", "strip_prefix(", "strip_suffix(", "replace("];
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let searched = |line: &str| {
        SEARCHES.iter().any(|search| {
            line.match_indices(&format!(".{search}")).any(|(at, _)| {
                let name = line[..at].trim_end_matches("()").rsplit(|c| !is_word(c)).next().unwrap_or_default();
                MESSAGES.contains(&name)
            })
        })
    };
    let mut found = std::collections::BTreeSet::new();
    for path in files("src") {
        let text = read(&path);
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//") && searched(line)) {
            let file = path.to_string_lossy().into_owned();
            assert!(READ_TEXTS.iter().any(|(known, _)| *known == file), "{file}: {line}");
            found.insert(file);
        }
    }
    assert_eq!(found.len(), READ_TEXTS.len(), "a file that reads no text any more leaves the list: {found:?}");
}
