//! `run merge`: the saved runs of several machines as one, so that one report, and one verdict, is about all of them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::arguments::OutputFile;
use super::document::{MAX, RunDocument};
use super::failure::{Failure, note, warn};
use super::har::archive;
use super::output::{as_value, print_as_is, show};
use super::run::{MergeArgs, contents, is_stream};
use crate::control::api::{Run, Saved, merged};
use crate::redact::visible_json;
use crate::util::wording::counted;

pub(super) fn run(args: &MergeArgs) -> Result<ExitCode, Failure> {
    refuse_repeated(args)?;
    let output = (!is_stream(&args.report)).then(|| OutputFile::at("--report", &args.report)).transpose()?;
    let documents: Vec<RunDocument> =
        args.files.iter().map(|file| RunDocument::read(file)).collect::<Result<_, _>>()?;
    note_equal(&args.files, &documents);
    let omitted_before = documents.iter().map(|run| run.records.omitted.records()).fold(0, usize::saturating_add);
    let names = names(&args.files);
    let saved = names.iter().zip(documents).map(|(name, run)| Saved { name: name.clone(), document: run.value() });
    let run = merged(saved.collect()).map_err(|(name, error)| {
        let file = names.iter().position(|known| *known == name).and_then(|at| args.files.get(at));
        let file = file.map_or_else(|| name.clone(), |file| file.display().to_string());
        Failure::invalid_file(format!("cannot use `{file}`: it is not as it was saved: {error}"))
            .with_hint("save it again with the wrs-emulator that merges it")
    })?;
    note_differences(&run);
    let document = RunDocument::made(&as_value(&run));
    let is_archive = output.as_ref().and_then(OutputFile::ending).as_deref() == Some("har");
    let text = match &output {
        Some(file) => contents(file, &document),
        None => visible_json(&document.json).into_owned(),
    };
    if !is_archive {
        refuse_unreadable(text.len() as u64)?;
    }
    let Some(output) = output else {
        print_as_is(&text);
        return Ok(ExitCode::SUCCESS);
    };
    output.write_shared(text)?;
    let (requests, deliveries, left_out) = (run.requests.len(), run.deliveries.len(), run.omitted.records());
    let shards: Vec<&str> = run.shards.iter().map(|shard| shard.name.as_str()).collect();
    let made = json!({ "shards": shards, "requests": requests, "deliveries": deliveries, "omitted": left_out });
    Ok(show(args.json, &made, || {
        let runs = counted(shards.len(), "run");
        let (requests, deliveries) = (counted(requests, "request"), counted(deliveries, "delivery"));
        let here = match left_out.saturating_sub(omitted_before) {
            0 => String::new(),
            here => format!("; {} left out, because {}", counted(here, "record"), document.records.bound()),
        };
        let before = match omitted_before {
            0 => String::new(),
            before => format!("; {} were already missing from the runs", counted(before, "record")),
        };
        format!("{runs} merged: {requests} and {deliveries}{here}{before}\n")
    }))
}

/// Refuses to write more bytes than are read again.
fn refuse_unreadable(bytes: u64) -> Result<(), Failure> {
    if bytes <= MAX {
        return Ok(());
    }
    let sizes = format!("{} MiB, and wrs-emulator reads at most {} MiB", bytes.div_ceil(1 << 20), MAX >> 20);
    let failure = Failure::check_failed(format!("the merged document would have {sizes}"));
    Err(failure.with_hint("merge fewer runs, or unedited files"))
}

/// Refuses a file that is named twice, or that would be overwritten.
fn refuse_repeated(args: &MergeArgs) -> Result<(), Failure> {
    let place = |file: &Path| file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let mut known = HashSet::new();
    for file in &args.files {
        let shown = file.display();
        if !known.insert(place(file)) {
            return Err(Failure::usage(format!("`{shown}` is given twice")).with_hint("name each run once"));
        }
        if !is_stream(file) && place(file) == place(&args.report) {
            let failure = Failure::usage(format!("--report: `{shown}` is one of the runs, and would be replaced"));
            return Err(failure.with_hint("name another file"));
        }
    }
    Ok(())
}

/// Two copies of one run count twice.
fn note_equal(files: &[PathBuf], documents: &[RunDocument]) {
    let mut known: HashMap<&str, &Path> = HashMap::new();
    for (file, document) in files.iter().zip(documents) {
        if let Some(same) = known.insert(document.json.trim(), file) {
            let (file, same) = (file.display(), same.display());
            warn(&format!("`{file}` and `{same}` have the same content; everything in them is counted twice"));
        }
    }
}

/// Notes the differences between the runs that one column cannot show.
fn note_differences(run: &Run) {
    let first = run.shards.first().map(|shard| &shard.emulator.version);
    if run.shards.iter().any(|shard| Some(&shard.emulator.version) != first) {
        note(&format!("the runs were saved by different versions: {}", run.emulator.version));
    }
    for shard in run.shards.iter().filter(|shard| !shard.settings.is_empty()) {
        let settings: Vec<&str> = shard.settings.iter().map(|setting| setting.knob.as_str()).collect();
        note(&format!("`{}` differs from the first run in its settings: {}", shard.name, settings.join(", ")));
    }
    for shard in run.shards.iter().filter(|shard| shard.without_findings) {
        note(&format!("`{}` was saved without findings, so it is not reviewed", shard.name));
    }
    let names = run.scenarios.iter().map(|scenario| scenario.scenario.row.name.as_str());
    let mut changed: Vec<&str> = names.filter_map(|name| Some(name.split_once('@')?.0)).collect();
    changed.dedup();
    for name in changed {
        note(&format!("scenario `{name}` differs between the runs; each version is listed with the name of its run"));
    }
}

/// The name of each run: its file without the extension, or as much of the path as distinguishes it from the others.
fn names(files: &[PathBuf]) -> Vec<String> {
    // From the name of the file upwards.
    let parts = |file: &PathBuf| -> Vec<String> {
        if is_stream(file) {
            return vec!["stdin".to_owned()];
        }
        let path = file.canonicalize().unwrap_or_else(|_| file.clone()).with_extension("");
        let plain = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '-' };
        path.iter().rev().map(|part| part.to_string_lossy().chars().map(plain).collect()).collect()
    };
    let paths: Vec<Vec<String>> = files.iter().map(parts).collect();
    // CI systems put each job's file into a separate folder.
    let has_one_name = files.len() > 1 && paths.iter().all(|parts| parts.len() > 1 && parts[0] == paths[0][0]);
    let skipped = usize::from(has_one_name);
    let named = |length: usize| -> Vec<String> {
        let name = |parts: &Vec<String>| {
            let mut used: Vec<&str> = parts.iter().skip(skipped).take(length).map(String::as_str).collect();
            used.reverse();
            used.join("-")
        };
        paths.iter().map(name).collect()
    };
    let are_distinct = |names: &Vec<String>| names.iter().collect::<HashSet<_>>().len() == names.len();
    let longest = paths.iter().map(Vec::len).max().unwrap_or_default();
    (1..=longest).map(named).find(are_distinct).unwrap_or_else(|| {
        let numbered = |(number, parts): (usize, &Vec<String>)| format!("{}-{number}", parts[0]);
        (1..).zip(&paths).map(numbered).collect()
    })
}

/// For the fuzz targets, which need something public: reads a document as if from a file, merges it with itself and makes an archive
/// of both. The error is what a command prints.
#[doc(hidden)]
pub fn try_document(bytes: Vec<u8>) -> Result<(), String> {
    let run = RunDocument::parse(Path::new("fuzz"), bytes).map_err(|failure| failure.message)?;
    archive(&run.records);
    let saved = ["a", "b"].map(|name| Saved { name: name.to_owned(), document: run.value() });
    let both = merged(saved.into()).map_err(|(name, error)| format!("{name}: {error}"))?;
    archive(&RunDocument::made(&as_value(&both)).records);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_run_is_called_after_what_tells_its_file_from_the_others() {
        for (files, expected) in [
            (&["/r/linux.json", "/r/mac os.html"][..], &["linux", "mac-os"][..]),
            (&["/r/run-1/run.json", "/r/run-2/run.json"], &["run-1", "run-2"]),
            (&["/r/a/x/run.json", "/r/b/x/run.json"], &["a-x", "b-x"]),
            (&["/r/a/run.json", "/r/b/run.json", "/r/c.json"], &["a-run", "b-run", "r-c"]),
            (&["/r/run.json", "-"], &["run", "stdin"]),
            (&["/r/run.json", "/r/run.html"], &["run-1", "run-2"]),
            (&["/only/run.json"], &["run"]),
            (&["/r/größe 2.json", "/r/日本.json", "/r/файл—३.json"], &["größe-2", "日本", "файл-३"]),
        ] {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            assert_eq!(names(&files), expected);
        }
    }

    #[test]
    fn what_could_not_be_read_again_is_refused() {
        assert!(refuse_unreadable(MAX).is_ok());
        let refused = refuse_unreadable(MAX + 1).map_err(|failure| failure.message);
        let message = "the merged document would have 65 MiB, and wrs-emulator reads at most 64 MiB";
        assert_eq!(refused, Err(message.to_owned()));
    }

    #[test]
    fn a_document_of_nothing_is_refused_by_its_name() {
        let saved = Saved { name: "a".to_owned(), document: Value::Null };
        assert_eq!(merged(vec![saved]).map(drop).map_err(|(name, _)| name), Err("a".to_owned()));
    }
}
