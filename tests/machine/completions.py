"""Completion in real shells: each types words and presses Tab in a terminal. Usage: completions.py BINARY SHELL..."""

import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time

DEADLINE = 20
# The text typed before Tab, and the result, or the expected candidates.
COMPLETED = [
    ("wrs-emulator scena", "wrs-emulator scenarios "),
    ("wrs-emulator scenarios us", "wrs-emulator scenarios use "),
    ("wrs-emulator scenarios use rate-limit-b", "wrs-emulator scenarios use rate-limit-burst "),
    ("wrs-emulator scenarios use rate-limit-burst own-sto", "wrs-emulator scenarios use rate-limit-burst own-story "),
    ("wrs-emulator --scenario rate-limit-b", "wrs-emulator --scenario rate-limit-burst "),
    ("wrs-emulator serve --scenario own-sto", "wrs-emulator serve --scenario own-story "),
    ("wrs-emulator serve --scenarios elsewhere --scenario there-o", "wrs-emulator serve --scenarios elsewhere --scenario there-only "),
    ("wrs-emulator serve --scenario=own-sto", "wrs-emulator serve --scenario=own-story "),
    ("wrs-emulator serve --profile hos", "wrs-emulator serve --profile hostile "),
    ("wrs-emulator serve --log js", "wrs-emulator serve --log json "),
    ("wrs-emulator serve --log=js", "wrs-emulator serve --log=json "),
    ("wrs-emulator serve --set rate_limit.requ", "wrs-emulator serve --set rate_limit.requests="),
    ("wrs-emulator profile set variation.key_order=shuf", "wrs-emulator profile set variation.key_order=shuffled "),
    ("wrs-emulator profile unset rate_limit.requ", "wrs-emulator profile unset rate_limit.requests "),
    ("wrs-emulator requests --oper", "wrs-emulator requests --operation "),
    ("wrs-emulator trigger workflow.", "wrs-emulator trigger workflow.completed "),
    ("wrs-emulator check elsewh", "wrs-emulator check elsewhere/"),
    ("wrs-emulator exec --fail-on unma", "wrs-emulator exec --fail-on unmatched "),
]
OFFERED = [
    ("wrs-emulator ", ["serve", "listen", "scenarios", "verdict"]),
    ("wrs-emulator scenarios ", ["list", "use", "reload"]),
    ("wrs-emulator scenarios use ", ["rate-limit-burst", "own-story"]),
    ("wrs-emulator completions ", ["bash", "zsh", "fish"]),
]


class Shell:
    """A shell in a terminal, whose prompt is `READY>`."""

    def __init__(self, folder, words, environment):
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execvpe(words[0], words, environment)
        self.shown = b""

    def read_until(self, found, about):
        """Reads until the condition holds for everything that was shown since `forget`."""
        end = time.monotonic() + DEADLINE
        while not found(self.shown):
            ready, _, _ = select.select([self.terminal], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise SystemExit(f"{about}: not seen within {DEADLINE} s, but {self.shown!r}")
            try:
                self.shown += os.read(self.terminal, 65536)
            except OSError:
                raise SystemExit(f"{about}: the shell ended: {self.shown!r}")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def forget(self):
        self.shown = b""

    def end(self):
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        os.close(self.terminal)


def seen(shown):
    """The text as a terminal shows it: a backspace moves the cursor, and what follows overwrites."""
    cells, at = [], 0
    for letter in shown.decode(errors="replace"):
        if letter == "\b":
            at = max(0, at - 1)
        elif letter != "\a":
            cells[at:at + 1] = [letter]
            at += 1
    return "".join(cells)


def start(shell, binary, home):
    """Starts a shell that has loaded the completions as the help says."""
    environment = {"HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}", "TERM": "dumb", "LANG": "C.UTF-8",
                   "ZDOTDIR": str(home), "COLUMNS": "200", "XDG_CONFIG_HOME": f"{home}/.config"}
    if shell == "bash":
        (home / ".bashrc").write_text('PS1="READY>"\nbind "set enable-bracketed-paste off"\nbind "set completion-query-items 0"\n'
                                      'bind "set page-completions off"\neval "$(wrs-emulator completions bash)"\n')
        words = ["bash", "--noprofile", "--rcfile", str(home / ".bashrc"), "-i"]
    elif shell == "zsh":
        (home / ".zshrc").write_text('PS1="READY>"; PROMPT_SP=; unsetopt PROMPT_SP; LISTMAX=100000\nautoload -Uz compinit; compinit -u\n'
                                     'eval "$(wrs-emulator completions zsh)"\n')
        words = ["zsh", "-i"]
    elif shell == "zsh-file":
        (home / ".zfunc").mkdir(exist_ok=True)
        written = subprocess.run(["wrs-emulator", "completions", "zsh"], env=environment, stdout=subprocess.PIPE, check=True)
        (home / ".zfunc/_wrs-emulator").write_bytes(written.stdout)
        (home / ".zshrc").write_text('PS1="READY>"; unsetopt PROMPT_SP; LISTMAX=100000\nfpath=(~/.zfunc $fpath)\nautoload -Uz compinit; compinit -u\n')
        words = ["zsh", "-i"]
    else:
        folder = home / ".config/fish/completions"
        folder.mkdir(parents=True, exist_ok=True)
        written = subprocess.run(["wrs-emulator", "completions", "fish"], env=environment, stdout=subprocess.PIPE, check=True)
        (folder / "wrs-emulator.fish").write_bytes(written.stdout)
        words = None
    return words, environment


def fish(home, environment, typed):
    """The candidates of fish, which prints them itself: its screen moves the cursor too much to be read."""
    asked = subprocess.run(["fish", "-c", 'complete --do-complete "$argv[1]"', typed], cwd=home, env=environment,
                           stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE)
    return [line.split("\t")[0] for line in asked.stdout.splitlines()]


def check_fish(home, environment):
    for typed, becomes in COMPLETED:
        found, wanted = fish(home, environment, typed), becomes.split(" ")
        last = (wanted[-1] or wanted[-2])
        assert found == [last], f"fish: {typed!r} has {found}, expected {last!r}"
    for typed, names in OFFERED:
        found = fish(home, environment, typed)
        assert set(names) <= set(found), f"fish: {typed!r} offers {found}, expected {names}"


def check_terminal(shell, home, words, environment):
    for typed, becomes in COMPLETED:
        terminal = Shell(home, words, environment)
        terminal.read_until(lambda shown: b"READY>" in shown, f"{shell}: prompt")
        terminal.forget()
        # The end of the line is typed after the Tab, so that a space added by the completion is also seen.
        terminal.type(typed + "\t")
        terminal.type("END")
        terminal.read_until(lambda shown: f"{becomes}END" in seen(shown), f"{shell}: {typed!r} to {becomes!r}")
        terminal.end()
    for typed, names in OFFERED:
        terminal = Shell(home, words, environment)
        terminal.read_until(lambda shown: b"READY>" in shown, f"{shell}: prompt")
        terminal.forget()
        terminal.type(typed + "\t\t")
        terminal.read_until(lambda shown: all(name.encode() in shown[len(typed):] for name in names), f"{shell}: {typed!r} offers {names}")
        terminal.end()


def main():
    binary, shells = os.path.abspath(sys.argv[1]), sys.argv[2:]
    for shell in shells:
        with tempfile.TemporaryDirectory() as folder:
            home = pathlib.Path(folder)
            (home / "bin").mkdir()
            (home / "bin/wrs-emulator").symlink_to(binary)
            for place, name in [("scenarios", "own-story"), ("elsewhere", "there-only")]:
                (home / place).mkdir()
                (home / place / f"{name}.toml").write_text('title = "A story"\n')
            words, environment = start(shell, binary, home)
            if words is None:
                check_fish(home, environment)
            else:
                check_terminal(shell, home, words, environment)
            print(f"{shell}: {len(COMPLETED)} words completed, {len(OFFERED)} lists offered")


main()
