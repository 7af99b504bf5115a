//! Shipped files and build files: those that name the same thing agree.

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR")))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What stands between `before` and the next of `ends` in a file.
fn said(path: &str, before: &str, ends: &[char]) -> String {
    let text = read(path);
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{path} does not say `{before}`"));
    rest.split(ends).next().unwrap_or_default().to_owned()
}

#[test]
fn the_minimum_rust_version_is_the_same_everywhere() {
    let minimum = said("Cargo.toml", "rust-version = \"", &['"']);
    assert_eq!(said("Dockerfile", "FROM rust:", &['-']), minimum, "Dockerfile");
    assert_eq!(said(".github/workflows/ci.yml", "rust: [\"", &['"']), minimum, "ci.yml tests it first");
    assert_eq!(said(".github/workflows/build.yml", "RUST: \"", &['"']), minimum, "build.yml");
    assert_eq!(said("CONTRIBUTING.md", "Rust ", &[' ', ',']), minimum, "CONTRIBUTING.md");
}

/// CI runs what people run, and a release nothing that CI did not pass.
#[test]
fn the_workflows_run_the_one_command() {
    assert!(read(".github/workflows/ci.yml").contains("bash .ci/run"));
    let release = read(".github/workflows/release.yml");
    assert!(release.contains("uses: ./.github/workflows/ci.yml") && release.contains("needs: check"));
}

/// The page of the container names each variable that the image sets, and the port and user.
#[test]
fn the_page_of_the_container_says_what_the_image_sets() {
    let (page, dockerfile) = (read("docs/container.md"), read("Dockerfile"));
    let (_, last) = dockerfile.rsplit_once("FROM scratch").expect("the last stage");
    let words = last.split([' ', '\n', '"']).filter(|word| word.starts_with("WRS_EMULATOR_"));
    let settings: Vec<&str> = words.collect();
    assert_eq!(settings.len(), 2, "{settings:?}");
    let facts = [said("Dockerfile", "\nUSER ", &['\n']), said("Dockerfile", "\nEXPOSE ", &['\n'])];
    for fact in settings.into_iter().chain(facts.iter().map(String::as_str)) {
        assert!(page.contains(fact), "docs/container.md does not name `{fact}`");
    }
}
