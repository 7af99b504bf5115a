"""Changes the logic in one place at a time, and expects a test to turn red; prints the score of each file.

Usage: mutants.py [--write] [FILE…]     all files of MODULES, or those whose path has one of these words

One build has all changes: each is a branch in a copy of the sources below target/mutants, and the environment variable MUTANT chooses
one. A change is tried with the unit tests that reach it, and if none turns red, with the tests over sockets. One that no test notices is
an error unless mutants.txt gives the reason. --write puts the table of a whole run into docs/internals/defences.md. Needs tree-sitter
and tree-sitter-rust.
"""

import collections
import concurrent.futures
import dataclasses
import os
import re
import subprocess
import sys
import threading
import time

import tree_sitter
import tree_sitter_rust

from tree import built, copy, document, root

tree = root / "target/mutants/tree"
reached = root / "target/mutants/reached"
# The modules of tests/it that try the survivors of each file.
MODULES = {
    "src/state/quota.rs": "quota clock snapshots settings",
    "src/webhook/egress.rs": "forwards receivers resolving webhooks",
    "src/scenario/decide.rs": "scenarios explain active_scenarios",
    "src/scenario/rule.rs": "scenarios explain active_scenarios library verdict templates diagnostics",
    "src/state/workspace/queue.rs": "webhooks clock clock_auto reset snapshots",
    "src/clock/agenda.rs": "clock clock_auto due_now reset webhooks waiting",
    "src/contract/signature/*.rs": "webhooks forgeries probe diagnosis",
}
SWITCH = """
/// True if the environment chooses this change. Writes down which changes each thread reaches, if there is a file for it.
pub(crate) fn mutant(number: u32) -> bool {
    use std::{cell::RefCell, collections::HashSet, env, fs, io::Write as _, process, sync::LazyLock, sync::atomic, thread};
    static CHOSEN: LazyLock<Option<u32>> = LazyLock::new(|| env::var("MUTANT").ok()?.parse().ok());
    static TIMES: atomic::AtomicU32 = atomic::AtomicU32::new(0);
    static REACHED: LazyLock<Option<fs::File>> =
        LazyLock::new(|| fs::OpenOptions::new().append(true).open(env::var_os("MUTANTS_REACHED")?).ok());
    thread_local!(static SEEN: RefCell<HashSet<u32>> = RefCell::default());
    if let Some(mut file) = REACHED.as_ref()
        && SEEN.try_with(|seen| seen.borrow_mut().insert(number)).unwrap_or_default()
    {
        let line = format!("{number} {}\\n", thread::current().name().unwrap_or_default());
        file.write_all(line.as_bytes()).expect("the file is there");
    }
    let is_chosen = *CHOSEN == Some(number);
    if is_chosen && TIMES.fetch_add(1, atomic::Ordering::Relaxed) > 30_000_000 {
        // A loop that no longer ends; the limit of time would stop it later.
        process::abort();
    }
    is_chosen
}
"""
OPERATORS = {
    "==": ["!="], "!=": ["=="], "&&": ["||"], "||": ["&&"], "<": ["==", ">", "<="], ">": ["==", "<", ">="], "<=": [">"], ">=": ["<"],
    "+": ["-", "*"], "-": ["+", "/"], "*": ["+", "/"], "/": ["%", "*"], "%": ["/", "+"], "<<": [">>"], ">>": ["<<"],
    "&": ["|", "^"], "|": ["&", "^"], "^": ["|", "&"],
}
OPERATORS |= {f"{one}=": [f"{other}=" for other in others] for one, others in OPERATORS.items() if one in "+ - * / % << >> & | ^".split()}
# What is computed by the compiler, or is not code.
LEFT_OUT = {"const_item", "static_item", "const_block", "array_type", "enum_item", "macro_invocation", "macro_definition", "attribute_item"}


@dataclasses.dataclass
class Mutant:
    file: str
    line: int
    change: str
    # Noticed, survived, or does not compile.
    result: str = ""

    def __str__(self):
        return f"{self.file}:{self.line}: {self.change}"


VALUES = {"": ["()"], "()": ["()"], "bool": ["true", "false"], "String": ["String::new()", '"xyzzy".into()'], "&str": ['""', '"xyzzy"']}


def values(kind):
    """Plausible values of a type."""
    outer, _, inner = kind.replace("&'static ", "&").partition("<")
    if outer in VALUES:
        return VALUES[outer]
    if re.fullmatch(r"[iu](\d+|size)", outer):
        return ["0", "1"]
    match outer.split("::")[-1]:
        case "Option":
            return ["None", *(f"Some({value})" for value in values(inner[:-1]))]
        case "Vec":
            return ["Vec::new()", *(f"vec![{value}]" for value in values(inner[:-1]))]
        case "Result":
            return [f"Ok({value})" for value in values(inner[:-1].rpartition(", ")[0])]
    if outer.startswith("&["):
        return ["&[]"]
    return [] if outer.startswith(("&", "impl ", "!")) else ["Default::default()"]


class File:
    """The mutated text of a file; its mutants are added to a list, and their place in it is their number."""

    def __init__(self, name, mutants, dropped):
        self.name, self.mutants, self.dropped = name, mutants, dropped
        self.source = (root / name).read_bytes()
        parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))
        self.owner, self.function = "", ""
        self.text = self.render(parser.parse(self.source).root_node)

    def original(self, node):
        return self.source[node.start_byte:node.end_byte].decode()

    def short(self, node):
        return " ".join(self.original(node).split())

    def branch(self, node, change, text):
        """What a new mutant does instead, between comments by which an error in it is found; empty if it does not compile."""
        name = f"{self.owner}{self.function}"
        self.mutants.append(Mutant(self.name, node.start_point.row + 1, change if name in change else f"{change} in {name}"))
        number = len(self.mutants)
        return "" if number in self.dropped else f"if crate::mutant({number}) {{/*{number}*/ {text} /*{number}*/}} "

    def choice(self, node, choices, otherwise):
        """An expression that is one of these texts, each with its change, if its mutant is chosen."""
        made = "".join(f"{branch}else " for change, text in choices if (branch := self.branch(node, change, text)))
        return f"({made}{{ {otherwise} }})" if made else otherwise

    def render(self, node):
        if node.type in LEFT_OUT:
            return self.original(node)
        if node.type == "impl_item":
            of = self.short(node.child_by_field_name("type"))
            by = node.child_by_field_name("trait")
            before, self.owner = self.owner, f"<impl {self.short(by)} for {of}>::" if by else f"{of}::"
            text = self.children(node)
            self.owner = before
            return text
        if node.type == "function_item":
            return self.render_function(node)
        if node.type == "match_arm":
            return self.render_arm(node)
        text = self.children(node)
        if node.type in ("binary_expression", "compound_assignment_expr"):
            left, right = (self.original(node.child_by_field_name(side)) for side in ("left", "right"))
            sign = node.child_by_field_name("operator")
            operator = self.original(sign)
            choices = [(f"replace {operator} with {other}", f"({left}) {other} ({right})") for other in OPERATORS[operator]]
            return self.choice(sign, choices, text)
        if node.type == "unary_expression" and (operator := self.original(node.children[0])) in "!-":
            return self.choice(node, [(f"delete {operator}", self.original(node.children[1]))], text)
        return text

    def children(self, node, replaced=None, by=""):
        """The text of a node with its children rendered, one of them replaced."""
        made, at, is_for_tests = "", node.start_byte, False
        for child in node.children:
            made += self.source[at:child.start_byte].decode()
            made += by if child == replaced else self.original(child) if is_for_tests else self.render(child)
            at = child.end_byte
            if child.type == "attribute_item":
                is_for_tests |= self.short(child) == "#[cfg(test)]"
            elif "comment" not in child.type:
                is_for_tests = False
        return made + self.source[at:node.end_byte].decode()

    def render_function(self, node):
        if any(child.type == "function_modifiers" and "const" in self.original(child).split() for child in node.children):
            return self.original(node)
        outer, self.function = self.function, self.short(node.child_by_field_name("name"))
        returned, body = node.child_by_field_name("return_type"), node.child_by_field_name("body")
        kind = self.short(returned) if returned else ""
        name = f"{self.owner}{self.function}" + (f" -> {kind}" if kind else "")
        others = [value for value in values(kind) if value != self.original(body)[1:-1].strip()]
        head = "".join(self.branch(node, f"replace {name} with {value}", f"return {value};") for value in others)
        text = self.children(node, body, f"{{ {head}{self.children(body)[1:]}")
        self.function = outer
        return text

    def render_arm(self, node):
        pattern = node.child_by_field_name("pattern")
        guard = pattern.child_by_field_name("condition")
        if guard and guard.type in ("let_condition", "let_chain"):
            return self.children(node)
        conditions = []
        others = [arm.child_by_field_name("pattern") for arm in node.parent.children if arm.type == "match_arm" and arm != node]
        if any(self.short(other) == "_" for other in others):
            if self.branch(node, f"delete match arm {self.short(pattern.children[0])}", ""):
                conditions.append(f"!crate::mutant({len(self.mutants)})")
        if guard:
            choices = [(f"replace match guard {self.short(guard)} with {value}", value) for value in ("true", "false")]
            conditions.append(self.choice(guard, choices, self.render(guard)))
        text = self.source[pattern.start_byte:guard.prev_sibling.start_byte if guard else pattern.end_byte].decode()
        return self.children(node, pattern, f"{text} if {' && '.join(conditions)}" if conditions else text)


def mutated(names):
    """The mutants, and the test programs that have them all, less those that do not compile."""
    dropped = set()
    copy(tree)
    (tree / "src/lib.rs").write_text((root / "src/lib.rs").read_text() + SWITCH)
    while True:
        mutants, regions = [], {}
        for name in names:
            text = File(name, mutants, dropped).text.encode()
            if (tree / name).read_bytes() != text:
                (tree / name).write_bytes(text)
            regions[name] = [(int(one[1]), *one.span()) for one in re.finditer(rb"/\*(\d+)\*/.*?/\*\1\*/", text, re.S)]
        programs, errors = built(tree)
        if programs:
            break
        for error in errors:
            if error["spans"]:
                spans = sorted(error["spans"], key=lambda span: not span["is_primary"])
                found = [number for span in spans for number, start, end in regions.get(span["file_name"], [])
                         if start <= span["byte_start"] and span["byte_end"] <= end]
                dropped.add(found[0] if found else sys.exit(error["rendered"]))
        print(f"{len(dropped)} of {len(mutants)} mutants do not compile", flush=True)
    for number in dropped:
        mutants[number - 1].result = "does not compile"
    return mutants, programs


def passes(command, number=0, limit=600.0):
    """True if all tests pass; the first one that fails ends the run, as does the limit."""
    environment = os.environ | ({"MUTANT": str(number)} if number else {"MUTANTS_REACHED": str(reached)})
    # A change may make a loop endless that allocates.
    command = ["prlimit", "--as=6000000000", *command]
    with subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace",
                          start_new_session=True) as process:
        def end():
            process.kill()
            # What the tests have started, too.
            subprocess.run(["pkill", "-KILL", "--session", str(process.pid)])

        timer = threading.Timer(limit, end)
        timer.start()
        passed = False
        for line in process.stdout:
            passed |= line.startswith("test result: ok")
            if line.startswith("test ") and line.endswith("FAILED\n"):
                if not number:
                    print(line, end="")
                break
        timer.cancel()
        end()
    return passed


def baseline(command):
    """Runs the tests without a mutant: which tests reach each mutant, and the seconds."""
    reached.write_text("")
    began = time.monotonic()
    if not passes(command):
        sys.exit(f"✗ without a mutant, {' '.join(command[1:])} fails")
    found = collections.defaultdict(set)
    for line in reached.read_text().splitlines():
        number, thread = line.split(" ", 1)
        found[int(number)].add(thread)
    return found, time.monotonic() - began


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    modules = {str(file.relative_to(root)): MODULES[pattern].split() for pattern in MODULES for file in sorted(root.glob(pattern))}
    names = [name for name in modules if not words or any(word in name for word in words)]
    mutants, programs = mutated(names)
    print(f"{len(mutants)} mutants, {sum(not one.result for one in mutants)} of them in one build", flush=True)

    tests, seconds = baseline([programs["lib"]])
    all_tests = set(re.findall(r"^(\S+): test$", subprocess.run([programs["lib"], "--list"], capture_output=True, text=True).stdout, re.M))
    by_module = {}
    for module in sorted({module for name in names for module in modules[name]}):
        by_module[module] = baseline([programs["it"], f"{module}::"])
    print(f"✓ without a mutant, the tests pass: {seconds:.0f} s and {sum(each for _, each in by_module.values()):.0f} s", flush=True)

    def tried(number):
        mutant, threads = mutants[number - 1], tests[number]
        # A thread without a test's name was started by one.
        chosen = ["--exact", *sorted(threads)] if threads <= all_tests else []
        if threads and not passes([programs["lib"], *chosen], number, 20 + 3 * seconds):
            return "noticed"
        reaching = [module for module in modules[mutant.file] if number in by_module[module][0]]
        limit = 60 + 3 * sum(by_module[module][1] for module in reaching)
        if reaching and not passes([programs["it"], *(f"{module}::" for module in reaching)], number, limit):
            return "noticed"
        return "survived"

    numbers = [number for number, mutant in enumerate(mutants, 1) if not mutant.result]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as workers:
        for done, (number, result) in enumerate(zip(numbers, workers.map(tried, numbers)), 1):
            mutants[number - 1].result = result
            if result == "survived":
                print(f"survived: {mutants[number - 1]}", flush=True)
            if done % 50 == 0:
                print(f"{done} of {len(numbers)}", flush=True)

    table = "| file | mutants | noticed | survived | do not compile |\n| --- | ---: | ---: | ---: | ---: |\n"
    for name in [*names, "all"]:
        counts = collections.Counter(mutant.result for mutant in mutants if name in (mutant.file, "all"))
        row = [counts.total(), counts["noticed"], counts["survived"], counts["does not compile"]]
        table += f"| {name} | " + " | ".join(map(str, row)) + " |\n"
    print(table)
    if "--write" in sys.argv and not words:
        document("tests/mutants.py", table)
    accepted = {line.split("  # ")[0] for line in (root / "tests/mutants.txt").read_text().splitlines() if "  # " in line}
    if missed := [str(mutant) for mutant in mutants if mutant.result == "survived" and f"{mutant.file}: {mutant.change}" not in accepted]:
        sys.exit("✗ no test notices\n  " + "\n  ".join(missed))


main()
