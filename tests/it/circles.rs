//! No circles between files, and no two types of one name.
//!
//! A path is followed through the `use` items of a `mod.rs` to the file with the definition, so a file that only passes
//! the names of its children on does not count as using them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::layers::{files, is_tests, read};

/// The parts of a path from the crate's root, such as `scenario`, `parse`.
type Parts = Vec<String>;

/// What one file names, outside its tests.
struct Source {
    is_parent: bool,
    /// What `use` items bring, by name.
    names: BTreeMap<String, Parts>,
    /// Every path that matters to the file: those that it uses without passing them on, and those in its code.
    paths: Vec<Parts>,
}

fn parts(path: &str) -> Parts {
    path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The paths of a `use` item without its groups.
fn expanded(item: &str) -> Vec<String> {
    let Some((prefix, group)) = item.split_once('{') else { return vec![item.trim().to_owned()] };
    let group = &group[..group.rfind('}').unwrap_or(group.len())];
    let (mut depth, mut entries) = (0, vec![String::new()]);
    for character in group.chars() {
        depth += i32::from(character == '{') - i32::from(character == '}');
        if character == ',' && depth == 0 {
            entries.push(String::new());
        } else {
            entries.last_mut().expect("there is one").push(character);
        }
    }
    entries.iter().flat_map(|entry| expanded(&format!("{}{}", prefix.trim(), entry.trim()))).collect()
}

/// A path as it is written in a module, from the crate's root; `None` if it leads out of the crate.
fn from_root(path: &str, module: &[String], modules: &BTreeSet<Parts>) -> Option<Parts> {
    let path = parts(path);
    let ups = path.iter().take_while(|part| *part == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => Some([module.get(..module.len().checked_sub(ups)?)?, &path[ups..]].concat()),
        first => modules.contains(&[module, &[first.to_owned()]].concat()).then(|| [module, &path].concat()),
    }
}

fn source(path: &Path, module: &[String], modules: &BTreeSet<Parts>) -> Source {
    let text = read(path);
    let lines = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().lines();
    let text: String =
        lines.filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect();
    let is_parent = path.ends_with("mod.rs");
    let (mut code, mut names, mut paths) = (String::new(), BTreeMap::new(), Vec::new());
    for item in text.split_inclusive(';') {
        let (before, used) = match item.split_once("use ") {
            Some((before, used))
                if before.trim_end().is_empty() || before.trim_end().ends_with([')', 'b', '{', '}']) =>
            {
                (before, used.trim_end_matches(';'))
            }
            _ => (item, ""),
        };
        code.push_str(before);
        for path in expanded(used).iter().filter(|path| !path.is_empty()) {
            let (path, name) = path.split_once(" as ").unwrap_or((path, path.rsplit("::").next().unwrap_or(path)));
            let Some(path) = from_root(path, module, modules) else { continue };
            let is_passed_on = is_parent && before.contains("pub") && path.starts_with(module);
            if !is_passed_on {
                paths.push(path.clone());
            }
            names.insert(name.to_owned(), path);
        }
    }
    let is_path = |character: char| character.is_alphanumeric() || matches!(character, '_' | ':');
    for word in code.split(|character| !is_path(character)).filter(|word| word.contains("::")) {
        let (first, rest) = word.split_once("::").expect("it has colons");
        let brought = names.get(first).map(|path| [path.clone(), parts(rest)].concat());
        paths.extend(brought.or_else(|| from_root(word, module, modules)));
    }
    Source { is_parent, names, paths }
}

/// The file that defines what a path names.
fn defining(path: &[String], sources: &BTreeMap<Parts, Source>) -> Option<Parts> {
    let length = (1..=path.len()).rev().find(|length| sources.contains_key(&path[..*length]))?;
    let (module, rest) = path.split_at(length);
    let source = &sources[module];
    match rest.first().and_then(|name| source.names.get(name)).filter(|_| source.is_parent) {
        Some(onward) if !onward.starts_with(&path[..=length]) => defining(&[onward, &rest[1..]].concat(), sources),
        _ => Some(module.to_vec()),
    }
}

/// For each file of `src`, by its module, the files that it uses.
pub(crate) fn uses() -> BTreeMap<Parts, BTreeSet<Parts>> {
    let module = |path: &Path| {
        let path = path.with_extension("").to_string_lossy().replace('/', "::");
        parts(path.strip_prefix("src::").expect("a file of src").trim_end_matches("::mod"))
    };
    let found: Vec<_> = files("src").into_iter().filter(|path| !is_tests(path)).collect();
    let modules: BTreeSet<Parts> = found.iter().map(|path| module(path)).collect();
    let read = |path: &Path| (module(path), source(path, &module(path), &modules));
    let sources: BTreeMap<Parts, Source> = found.iter().map(|path| read(path)).collect();
    let used = |source: &Source| source.paths.iter().filter_map(|path| defining(path, &sources)).collect();
    sources.iter().map(|(module, source)| (module.clone(), used(source))).collect()
}

/// Everything that can be reached from a file.
fn reached<'u>(from: &'u Parts, uses: &'u BTreeMap<Parts, BTreeSet<Parts>>) -> BTreeSet<&'u Parts> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        open.extend(uses[next].iter().filter(|other| *other != next && found.insert(*other)));
    }
    found
}

#[test]
fn files_do_not_need_each_other() {
    let uses = uses();
    let mut inside = BTreeMap::<String, Vec<String>>::new();
    for file in uses.keys().filter(|file| reached(file, &uses).contains(file)) {
        inside.entry(file[0].clone()).or_default().push(file.join("::"));
    }
    assert!(inside.is_empty(), "files that need each other are one concept, or share a third: {inside:#?}");
}

#[test]
fn the_rule_would_see_a_circle() {
    let uses = uses();
    let path = |text: &str| parts(text);
    assert!(uses[&path("scenario::parse::rules")].contains(&path("scenario::rule")));
    assert!(uses[&path("contract::signature::sign")].contains(&path("contract::signature::scheme")));
    assert!(uses[&path("scenario::emit")].contains(&path("contract::signature::sign")), "through `pub use`");
    assert!(!uses[&path("scenario")].contains(&path("scenario::watch")), "which only passes names on");
}

/// A reader knows from a name alone which type is meant. Associated types are what their trait says.
#[test]
fn no_two_types_have_one_name() {
    let mut seen = BTreeMap::<String, Vec<String>>::new();
    for path in files("src").into_iter().filter(|path| !is_tests(path)) {
        let text = read(&path);
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for line in code.lines() {
            let item = line.trim_start();
            let item = item.strip_prefix("pub").map_or(item, |rest| rest.trim_start_matches(|c| c != ' ').trim_start());
            let Some((kind, name)) = item.split_once(' ') else { continue };
            let is_type =
                ["struct", "enum", "trait", "union"].contains(&kind) || kind == "type" && !line.starts_with(' ');
            if is_type && name.starts_with(|c: char| c.is_ascii_uppercase()) {
                let name = name.chars().take_while(|c| c.is_alphanumeric()).collect();
                seen.entry(name).or_default().push(path.display().to_string());
            }
        }
    }
    assert!(seen.len() > 500, "the types were found: {}", seen.len());
    seen.retain(|_, files| files.len() > 1);
    assert!(seen.is_empty(), "one name, several types: {seen:#?}");
}
