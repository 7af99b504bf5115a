//! Reloading under way: each manner in which editors and platforms change a file is seen, nothing half-written is served,
//! and no request fails while files change all the time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use wrs_emulator::Emulator;

use crate::support::{Client, KEY, PATIENCE, builder, control, sized, started, view};

/// A story whose answers all carry one number.
fn story(number: u64) -> String {
    let rule = |operation: &str| {
        format!(
            "[[rule]]\nwhen = {{ operation = \"{operation}\" }}\nreply = {{ status = 422, code = \"n{number}\", message = \"{number}\" }}\n\n"
        )
    };
    format!("title = \"Number {number}\"\n\n{}{}", rule("system.status"), rule("hello"))
}

/// Writes a new file, then renames it over the old one, as careful editors do.
fn rename_over(file: &Path, text: &str) {
    let sibling = file.with_file_name(".story.toml.new");
    std::fs::write(&sibling, text).expect("the file is written");
    std::fs::rename(&sibling, file).expect("the file is renamed");
}

/// What one answer says.
#[derive(Debug)]
struct Told {
    generation: u64,
    number: u64,
}

/// Asks, and checks that the answer is whole and of one piece.
async fn ask(client: &mut Client, path: &str) -> Told {
    let answer = client.send_as(KEY, "GET", path, "").await;
    let generation = answer.header("x-emulator-generation").expect("a generation").parse().expect("a number");
    let number: u64 = answer.message().parse().expect("the story's number");
    assert_eq!((answer.status, answer.code()), (422, format!("n{number}")), "{answer:?}");
    Told { generation, number }
}

/// An emulator that plays `story` from a folder, and a connection to it.
struct Stage {
    emulator: Emulator,
    client: Client,
    generation: u64,
    number: u64,
}

impl Stage {
    async fn open(folder: &Path) -> Self {
        let builder = builder().set("rate_limit.enabled=false").scenario_folder(folder).scenario("story");
        let emulator = started(builder).await;
        let mut client = Client::new(&emulator);
        let answered = ask(&mut client, "/v1/hello").await;
        Self { emulator, client, generation: answered.generation, number: answered.number }
    }

    async fn health(&self) -> Value {
        view(&self.emulator, "health").await
    }

    /// What was served before is served on.
    async fn unchanged(&mut self) {
        for path in ["/v1/hello", "/v1/system/status"] {
            let answered = ask(&mut self.client, path).await;
            assert_eq!((answered.generation, answered.number), (self.generation, self.number));
        }
    }

    /// Waits until the change is seen; until then the old answers continue.
    async fn changed_to(&mut self, number: u64) {
        let seen = async {
            loop {
                let answered = ask(&mut self.client, "/v1/hello").await;
                if answered.generation > self.generation {
                    return answered;
                }
                assert_eq!(answered.number, self.number);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let answered = tokio::time::timeout(PATIENCE, seen).await.expect("the change is seen");
        assert_eq!(answered.number, number, "nothing between the two was served");
        assert_eq!(self.health().await["generation"], answered.generation);
        (self.generation, self.number) = (answered.generation, answered.number);
        self.unchanged().await;
    }

    /// Waits until health reports this of the scenarios; the old answers continue.
    async fn healthy(&mut self, state: &str) {
        let seen = async {
            while self.health().await["scenarios"] != state {
                self.unchanged().await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, seen).await.expect("the state is seen");
        self.unchanged().await;
    }
}

/// A folder with the first story.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("story.toml");
    std::fs::write(&file, story(1)).expect("the file is written");
    (folder, file)
}

#[tokio::test]
async fn saving_in_place_and_renaming_over_the_file_are_seen() {
    let (folder, file) = folder();
    let mut stage = Stage::open(folder.path()).await;
    for number in [2, 4, 6] {
        std::fs::write(&file, story(number)).expect("the file is written");
        stage.changed_to(number).await;
        rename_over(&file, &story(number + 1));
        stage.changed_to(number + 1).await;
    }
}

#[tokio::test]
async fn saving_in_two_steps_is_seen_and_no_half_is_served() {
    use std::io::Write as _;
    let (folder, file) = folder();
    let mut stage = Stage::open(folder.path()).await;
    for number in 2..5 {
        let text = story(number);
        // The first rule alone would be a whole scenario, and so would the empty file.
        let half = text.rfind("[[rule]]").expect("two rules");
        let mut open = std::fs::File::create(&file).expect("the file is emptied");
        stage.unchanged().await;
        open.write_all(&text.as_bytes()[..half]).expect("the first half is written");
        for _ in 0..20 {
            stage.unchanged().await;
        }
        open.write_all(&text.as_bytes()[half..]).expect("the second half is written");
        drop(open);
        stage.changed_to(number).await;
    }
}

#[tokio::test]
async fn deleting_and_creating_is_seen_and_a_deleted_story_plays_on() {
    let (folder, file) = folder();
    let mut stage = Stage::open(folder.path()).await;
    for number in 2..4 {
        std::fs::remove_file(&file).expect("the file is deleted");
        stage.healthy("last good").await;
        std::fs::write(&file, story(number)).expect("the file is written");
        stage.changed_to(number).await;
        stage.healthy("as saved").await;
    }
    std::fs::remove_dir_all(folder.path()).expect("the folder is deleted");
    stage.healthy("last good").await;
    std::fs::create_dir(folder.path()).expect("the folder is made again");
    std::fs::write(&file, story(9)).expect("the file is written");
    stage.changed_to(9).await;
}

#[tokio::test]
async fn swapping_the_data_folder_of_a_mount_is_seen() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |name: &str| folder.path().join(name);
    let version = |number: u64| {
        let version = inside(&format!("..version_{number}"));
        std::fs::create_dir(&version).expect("a folder");
        std::fs::write(version.join("story.toml"), story(number)).expect("the file is written");
        version
    };
    let mut old = version(1);
    symlink("..version_1", inside("..data")).expect("a link");
    symlink("..data/story.toml", inside("story.toml")).expect("a link");
    let mut stage = Stage::open(folder.path()).await;
    for number in 2..5 {
        let new = version(number);
        symlink(new.file_name().expect("a name"), inside("..data_tmp")).expect("a link");
        std::fs::rename(inside("..data_tmp"), inside("..data")).expect("the link is swapped");
        std::fs::remove_dir_all(&old).expect("the old version is deleted");
        old = new;
        stage.changed_to(number).await;
    }
}

#[tokio::test]
async fn saving_through_a_link_is_seen() {
    use std::os::unix::fs::symlink;
    let (elsewhere, file) = folder();
    let folder = tempfile::tempdir().expect("a folder");
    symlink(&file, folder.path().join("story.toml")).expect("a link");
    let mut stage = Stage::open(folder.path()).await;
    std::fs::write(&file, story(2)).expect("the file is written");
    stage.changed_to(2).await;
    rename_over(&file, &story(3));
    stage.changed_to(3).await;
    drop(elsewhere);
    stage.healthy("last good").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_reloads_under_many_connections_fail_no_request_and_mix_nothing() {
    let (folder, file) = folder();
    let stage = Stage::open(folder.path()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let (connections, reloads) = sized((10, 200), (50, 1_000));
    let mut clients = Vec::new();
    for number in 0..connections {
        let (mut client, stop) = (Client::new(&stage.emulator), Arc::clone(&stop));
        clients.push(tokio::spawn(async move {
            let path = ["/v1/hello", "/v1/system/status"][number % 2];
            let mut seen = BTreeMap::new();
            let (mut last, mut asked) = (0, 0_u32);
            while !stop.load(Ordering::Relaxed) {
                let answered = ask(&mut client, path).await;
                assert!(answered.generation >= last, "generations never go back");
                last = answered.generation;
                assert_eq!(
                    *seen.entry(answered.generation).or_insert(answered.number),
                    answered.number,
                    "one state each"
                );
                asked += 1;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            (asked, seen)
        }));
    }
    for number in 2..2 + reloads {
        rename_over(&file, &story(number));
        let answer = control(&stage.emulator, "POST", "scenarios/reload", &json!({})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    stop.store(true, Ordering::Relaxed);
    let mut by_generation = BTreeMap::new();
    let mut asked = 0;
    for client in clients {
        let (count, seen) = client.await.expect("no request failed");
        asked += count;
        for (generation, number) in seen {
            assert_eq!(*by_generation.entry(generation).or_insert(number), number, "clients see the same state");
        }
    }
    assert!(asked > 200 && by_generation.len() > 20, "{asked} requests saw {} states", by_generation.len());
    let generation = stage.health().await["generation"].as_u64().expect("a number");
    assert!(generation > stage.generation + reloads * 9 / 10, "{generation}");
}
