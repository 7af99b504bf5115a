//! The banner printed at the start on a terminal: how to call the emulator, and what is active.

use crate::app::Emulator;
use crate::contract::keys::SAMPLE_KEY;
use crate::wording::counted;

/// The banner of a running emulator; `profile` is the preset or file that it was started with.
pub(super) fn banner(emulator: &Emulator, profile: Option<&str>) -> String {
    let (url, control) = (emulator.base_url(), emulator.control());
    let (active, files) = control.scenarios();
    let active = if active.is_empty() { "none active".to_owned() } else { format!("{} active", active.join(", ")) };
    let forwards = control.profile_of_all();
    let mut forwards: Vec<String> =
        forwards.webhooks.forwards.iter().map(|rule| format!("{} -> {}", rule.from(), rule.to())).collect();
    if forwards.is_empty() {
        forwards.push("none".to_owned());
    }
    format!(
        "
  any key that begins with {prefix} works; try:

    curl -H 'Authorization: Bearer {SAMPLE_KEY}' {url}/v1/system/status

  preset     {preset}
  scenarios  {active}; {files}
  forwards   {forwards}

  what happens is shown here, and in a browser at {control_url}/_emulator/; stop with Ctrl-C

",
        prefix = control.profile_of_all().keys.test_prefix,
        preset = profile.unwrap_or("contract"),
        files = counted(files, "scenario file"),
        forwards = forwards.join("\n             "),
        control_url = emulator.control_url(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_banner_names_what_is_in_force() {
        let plain = Emulator::builder().start().await.expect("it starts");
        let said = banner(&plain, None);
        for line in ["  preset     contract\n", "  scenarios  none active; 0 scenario files\n", "  forwards   none\n"] {
            assert!(said.contains(line), "`{line}` is not in\n{said}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["one", "two"] {
            std::fs::write(folder.path().join(format!("{name}.toml")), "title = 'a'\n").expect("the file is written");
        }
        let emulator = Emulator::builder()
            .preset("friendly")
            .scenario_folder(folder.path())
            .scenario("two")
            .scenario("rate-limit-burst")
            .forward("https://app.example.com=http://localhost:3000")
            .forward("https://b.example=http://localhost:4000/in")
            .start()
            .await
            .expect("it starts");
        let said = banner(&emulator, Some("friendly"));
        for part in [
            "  preset     friendly\n",
            "  scenarios  two, rate-limit-burst active; 2 scenario files\n",
            "  forwards   https://app.example.com -> http://localhost:3000\n             https://b.example -> http://localhost:4000/in\n",
            &format!("in a browser at {}/_emulator/;", emulator.control_url()),
            &format!("curl -H 'Authorization: Bearer sk_test_local' {}/v1/system/status", emulator.base_url()),
        ] {
            assert!(said.contains(part), "`{part}` is not in\n{said}");
        }
    }
}
