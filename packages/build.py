#!/usr/bin/env python3
"""Packs built binaries for npm and PyPI. Usage: build.py [--publish] BINARY… FOLDER

Writes to FOLDER, made if missing: one npm package with all the binaries, to be installed from its file, and a wheel of each binary.
With --publish instead a tar file for `npm publish`: a package for each binary, and the one in front of all platforms,
whose optional dependencies they are. From files that would fail: package managers ask a registry for those of other platforms.

The platforms are read from the binaries, the version from Cargo.toml, and the types from the documents that a binary prints, so that one
must be for this machine. The same input gives the same bytes. Needs Python 3.11 and nothing else.
"""

import base64
import gzip
import hashlib
import io
import json
import pathlib
import platform as machine
import re
import struct
import subprocess
import sys
import tarfile
import tomllib
import zipfile

sys.dont_write_bytecode = True
import typed

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = tomllib.loads((HERE.parent / "Cargo.toml").read_text())["package"]
NAME, VERSION = PACKAGE["name"], PACKAGE["version"]
# Links of the packages' pages: to the public address, where there is one, and else to the documentation in the package.
DOCS = f"]({PACKAGE['repository']}/blob/main/docs/" if "repository" in PACKAGE else "](docs/"
LICENSE = (HERE.parent / "LICENSE").read_bytes()
# What is released: npm's names of operating system and processor.
PLATFORMS = [("linux", "x64"), ("linux", "arm64"), ("darwin", "x64"), ("darwin", "arm64")]
HOW = """\
hint: from the checkout, type
  cargo build --release
  python3 packages/build.py target/release/wrs-emulator dist
`--help` says more."""
# npm writes this time to every package: 26 October 1985.
NPM_TIME = 499162500


def platform(binary):
    """npm's operating system and processor, and the wheel's platform tag."""
    if binary[:4] == b"\x7fELF":
        machine = {0x3E: ("x64", "x86_64"), 0xB7: ("arm64", "aarch64")}.get(struct.unpack_from("<H", binary, 18)[0])
        if not machine:
            raise ValueError("its processor is neither x86_64 nor arm64")
        needed = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", binary)] if is_dynamic(binary) else []
        if needed:
            return "linux", machine[0], f"manylinux_2_{max(max(needed), 17)}_{machine[1]}"
        # Static: any C library does.
        return "linux", machine[0], f"manylinux_2_17_{machine[1]}.musllinux_1_1_{machine[1]}"
    if binary[:4] == b"\xcf\xfa\xed\xfe":
        return {
            0x01000007: ("darwin", "x64", "macosx_10_12_x86_64"),
            0x0100000C: ("darwin", "arm64", "macosx_11_0_arm64"),
        }[struct.unpack_from("<I", binary, 4)[0]]
    raise ValueError("not a program for Linux or macOS: neither ELF nor Mach-O")


def is_dynamic(binary):
    """Whether an ELF binary names a loader."""
    start, = struct.unpack_from("<Q", binary, 32)
    size, count = struct.unpack_from("<HH", binary, 54)
    interpreter = 3
    return any(struct.unpack_from("<I", binary, start + size * index)[0] == interpreter for index in range(count))


def npm(manifest, files):
    """The bytes of one npm package; `files` are (path, bytes, mode)."""
    manifest = {
        **manifest, "version": VERSION, "description": PACKAGE["description"], "keywords": PACKAGE["keywords"], "license": PACKAGE["license"],
    }
    text = json.dumps(manifest, indent=2) + "\n"
    content = [("package.json", text.encode(), 0o644), ("LICENSE", LICENSE, 0o644), *files]
    return gzip.compress(tar((f"package/{path}", content, mode) for path, content, mode in content), mtime=0)


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content, mode in files:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(content), mode, NPM_TIME
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def front(manifest, types, binaries):
    """The npm package that users name: library, types, launcher, documentation, and these binaries."""
    library = [(file.name, file.read_bytes(), 0o644) for file in sorted((HERE / "npm").iterdir()) if file.suffix in (".js", ".ts") and file.stem != NAME]
    library += [(name, text, 0o644) for name, text in types.items() if name.endswith(".ts")]
    launcher = (HERE / f"npm/{NAME}.js").read_bytes()
    own = {"name": NAME, "main": "index.js", "types": "index.d.ts", "bin": {NAME: f"bin/{NAME}.js"}, "engines": {"node": ">=18"}}
    pages = [("README.md", page("npm").encode(), 0o644), *docs()]
    return npm({**own, **manifest}, [*pages, *library, (f"bin/{NAME}.js", launcher, 0o755), *binaries])


def for_files(types, binaries):
    """The npm package that is installed from its file, on each platform that it has a binary for."""
    packed = [(f"bin/{'-'.join(known)}/{NAME}", binary, 0o755) for known, (_, binary) in sorted(binaries.items())]
    # Yarn runs nothing from its archives.
    return front({"preferUnplugged": True}, types, packed)


def for_registries(types, binaries):
    """A tar file with the npm packages to publish."""
    packages = []
    for known, (_, binary) in sorted(binaries.items()):
        own = {"name": f"{NAME}-{'-'.join(known)}", "os": [known[0]], "cpu": [known[1]], "preferUnplugged": True}
        about = f"# {own['name']}\n\nThe program of the package `{NAME}` for {', '.join(known)}. That package has the page and the documentation.\n"
        packages.append((own["name"], npm(own, [("README.md", about.encode(), 0o644), (f"bin/{NAME}", binary, 0o755)])))
    packages.append((NAME, front({"optionalDependencies": {f"{NAME}-{'-'.join(known)}": VERSION for known in PLATFORMS}}, types, [])))
    return tar((f"{name}-{VERSION}.tgz", content, 0o644) for name, content in packages)


def wheel(folder, types, tag, binary):
    """Writes the wheel: the binary as a script that pip makes executable, the pytest plugin, and the types."""
    name = NAME.replace("-", "_")
    info = f"{name}-{VERSION}.dist-info"
    # The page in the metadata is next to the folder with the documentation.
    readme = page("pypi").replace("](docs/", f"](../{name}/docs/")
    tags = "".join(f"Tag: py3-none-{one}\n" for one in tag.split("."))
    metadata = (
        f"Metadata-Version: 2.4\nName: {NAME}\nVersion: {VERSION}\nSummary: {PACKAGE['description']}\n"
        f"Keywords: {','.join(PACKAGE['keywords'])}\nLicense-Expression: {PACKAGE['license']}\nLicense-File: LICENSE\n"
        f"Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{readme}"
    )
    modules = sorted((HERE / "pypi" / name).glob("*.py"))
    files = [
        *((f"{name}/{module.name}", module.read_bytes(), 0o644) for module in modules),
        *((f"{name}/{module}", text, 0o644) for module, text in types.items() if module.endswith(".py")),
        (f"{name}/py.typed", b"", 0o644),
        *((f"{name}/{path}", content, mode) for path, content, mode in docs()),
        (f"{name}-{VERSION}.data/scripts/{NAME}", binary, 0o755),
        (f"{info}/entry_points.txt", f"[pytest11]\n{name} = {name}.pytest_plugin\n".encode(), 0o644),
        (f"{info}/METADATA", metadata.encode(), 0o644),
        (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\n{tags}".encode(), 0o644),
        (f"{info}/licenses/LICENSE", LICENSE, 0o644),
    ]
    record = "".join(f"{path},sha256={digest(content)},{len(content)}\n" for path, content, _ in files)
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644))
    file = folder / f"{name}-{VERSION}-py3-none-{tag}.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content, mode in files:
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return file


def page(registry):
    return (HERE / registry / "README.md").read_text().replace("](docs/", DOCS)


def docs():
    """The documentation, as (path, bytes, mode). A link to a file that is not packed becomes plain text."""
    folder = HERE.parent / "docs"

    def linked(file):
        def keep(link):
            target = (file.parent / link[2].partition("#")[0]).resolve()
            return link[0] if "://" in link[2] or target.is_relative_to(folder) else link[1]

        return re.sub(r"\[([^][]*)\]\(([^()\s]+)\)", keep, file.read_text()).encode()

    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return [(str(file.relative_to(HERE.parent)), linked(file) if file.suffix in (".md", ".txt") else file.read_bytes(), 0o644) for file in files]


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def read(paths):
    """The binaries by platform, each with the tag of its wheel."""
    binaries = {}
    for path in paths:
        try:
            binary = pathlib.Path(path).read_bytes()
            *known, tag = platform(binary)
        except (OSError, ValueError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else problem
            sys.exit(f"error: cannot pack `{path}`: {reason}\n\n{HOW}")
        if tuple(known) in binaries:
            sys.exit(f"error: two binaries for {'-'.join(known)}: `{path}` is the second one; give one for each platform")
        binaries[tuple(known)] = tag, binary
    return binaries


def types_of(paths):
    """The files with types, by one of these binaries that is for this machine."""
    here = machine.system().lower(), {"x86_64": "x64", "aarch64": "arm64"}.get(machine.machine(), machine.machine())
    for path in paths:
        if platform(pathlib.Path(path).read_bytes())[:2] == here:
            try:
                return {name: text.encode() for name, text in typed.of(pathlib.Path(path).resolve()).items()}
            except (OSError, subprocess.CalledProcessError, ValueError):
                sys.exit(f"error: cannot pack `{path}`: it is not {NAME}, because `{path} openapi` prints no document\n\n{HOW}")
    sys.exit(f"error: no binary is for {'-'.join(here)}: the types are made from the documents that one prints here")


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(__doc__))
    *paths, folder = sys.argv[1:] or [None]
    is_published = "--publish" in paths[:1]
    if not paths[is_published:]:
        missing = "a folder for the packages" if folder and pathlib.Path(folder).is_file() else "a built program"
        sys.exit(f"error: {missing} is missing\n\n{HOW}")
    binaries, folder = read(paths[is_published:]), pathlib.Path(folder)
    types = types_of(paths[is_published:])
    folder.mkdir(parents=True, exist_ok=True)
    if is_published:
        files = [written(folder / f"{NAME}-npm-{VERSION}.tar", for_registries(types, binaries))]
    else:
        wheels = [wheel(folder, types, tag, binary) for tag, binary in binaries.values()]
        files = [written(folder / f"{NAME}-{VERSION}.tgz", for_files(types, binaries)), *wheels]
    for file in files:
        print(file.resolve())
        # With several programs it makes a release, and nothing is installed here.
        tool = {".tgz": "npm install --save-dev", ".whl": "pip install"}.get(file.suffix)
        if tool and len(binaries) == 1:
            print(f"  in your project: {tool} {file.resolve()}", file=sys.stderr)


def written(file, content):
    file.write_bytes(content)
    return file


main()
