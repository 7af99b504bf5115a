"""Builds and lays out an image from a Dockerfile without an engine. Usage: dockerfile.py DOCKERFILE FOLDER

Runs the `RUN` lines of the build stage in the repository, copies what the last stage copies to FOLDER/root, and writes what
the last stage sets to FOLDER/image.json. The build stage's own folder stands for the repository, every other path of the
build stage for the same path of this machine. An instruction that is not known here ends it: nothing is passed over.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys


def instructions(text):
    """Name and arguments of each instruction; comments are dropped and continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name.upper(), rest.strip()


def build(stage, repository):
    """Runs the build stage here; gives the folder that stands for the repository there."""
    folder = "/"
    for name, rest in stage:
        if name == "WORKDIR":
            folder = rest
        elif name == "COPY":
            assert rest == ". .", f"the build stage copies the repository whole, not `{rest}`"
        elif name == "RUN":
            print(f"$ {rest}", flush=True)
            subprocess.run(["sh", "-c", rest], cwd=repository, check=True)
        else:
            sys.exit(f"the build stage has an instruction that is not proven here: {name}")
    return folder


def lay_out(stage, built, repository, folder):
    """Copies the files of the last stage, and collects its settings."""
    root = os.path.join(folder, "root")
    os.mkdir(root)
    image = {"environment": {}, "labels": {}, "ports": [], "owners": {}}
    for name, rest in stage:
        if name == "COPY":
            flag, *owner, source, target = shlex.split(rest)
            assert flag == "--from=build" and len(owner) <= 1, rest
            here = re.sub(f"^{re.escape(built)}(?=/)", repository, source)
            # Docker copies the contents of a folder, and a file into a target that ends with a slash.
            assert target.endswith("/"), f"`COPY {rest}` leaves open whether the target is a folder"
            target = root + target
            if os.path.isdir(here):
                shutil.copytree(here, target, dirs_exist_ok=True)
                if owner:
                    # Whoever lays it out may not be root; `prove.py` is.
                    image["owners"][target.removeprefix(root)] = owner[0].removeprefix("--chown=")
            else:
                os.makedirs(target, exist_ok=True)
                shutil.copy(here, target)
        elif name in ("ENV", "LABEL"):
            pairs = dict(pair.split("=", 1) for pair in shlex.split(rest))
            image["environment" if name == "ENV" else "labels"].update(pairs)
        elif name == "USER":
            image["user"], image["group"] = (int(part) for part in rest.split(":"))
        elif name == "WORKDIR":
            image["folder"] = rest
        elif name == "EXPOSE":
            image["ports"].append(int(rest))
        elif name == "ENTRYPOINT":
            image["entrypoint"] = json.loads(rest)
        elif name == "HEALTHCHECK":
            image["health"] = json.loads(rest.split(" CMD ", 1)[1])
        else:
            sys.exit(f"the last stage has an instruction that is not proven here: {name}")
    return image


def main():
    dockerfile, folder = sys.argv[1:]
    repository = os.path.dirname(os.path.abspath(dockerfile))
    stages = []
    for name, rest in instructions(open(dockerfile, encoding="utf-8").read()):
        if name == "FROM":
            stages.append((rest, []))
        else:
            stages[-1][1].append((name, rest))
    (first, build_stage), (last, last_stage) = stages
    assert first.endswith(" AS build") and last == "scratch", (first, last)
    built = build(build_stage, repository)
    image = lay_out(last_stage, built, repository, folder)
    with open(os.path.join(folder, "image.json"), "w", encoding="utf-8") as file:
        json.dump(image, file, indent=2)


main()
