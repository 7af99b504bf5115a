"""Checks the files of a release. Usage: dry_run.py BINARY FOLDER TARGET"""

import json
import pathlib
import re
import sys
import tarfile
import tomllib

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from promises import check

binary, folder, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
root = pathlib.Path(__file__).parents[2]
package = tomllib.loads((root / "Cargo.toml").read_text())["package"]
workflow = (root / ".github/workflows/release.yml").read_text()


def main():
    name = f"wrs-emulator-v{package['version']}-{target}"
    names = {file.name for file in folder.iterdir()}
    wheels = {file for file in names if file.endswith(".whl")}
    version = package["version"]
    expected = {f"{name}.tar.gz", f"{name}.cdx.json", "SHA256SUMS", f"wrs-emulator-{version}.tgz", f"wrs-emulator-npm-{version}.tar"}
    check("every file is there: archive, SBOM, npm packages, wheel, checksums", names - wheels == expected and len(wheels) == 1, names)
    with tarfile.open(folder / f"{name}.tar.gz") as archive:
        inside = set(archive.getnames())
        same = archive.extractfile(f"{name}/wrs-emulator").read() == binary.read_bytes()
    check("the archive holds the binary, README, CHANGELOG and LICENSE",
          same and inside == {name, *(f"{name}/{file}" for file in ("wrs-emulator", "README.md", "CHANGELOG.md", "LICENSE"))}, inside)

    text = (folder / f"{name}.cdx.json").read_text()
    problems = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    check("the SBOM is valid by CycloneDX' strict schema", problems is None, problems)
    bom = json.loads(text)
    known = {component["bom-ref"]: component for component in [bom["metadata"]["component"], *bom["components"]]}
    named = {reference for entry in bom["dependencies"] for reference in [entry["ref"], *entry["dependsOn"]]}
    check(f"the SBOM names {len(bom['components'])} crates, each with its checksum, and no other",
          named == known.keys() and all("hashes" in component for component in bom["components"]), named ^ known.keys())
    direct = {f"{dependency}@" for dependency in tomllib.loads((root / "Cargo.toml").read_text())["dependencies"]}
    missing = {one for one in direct if not any(reference.startswith(f"pkg:cargo/{one}") for reference in known)}
    check("every direct dependency is among them", not missing, missing)

    binstall = package["metadata"]["binstall"]
    given = {"name": package["name"], "version": package["version"], "target": target, "repo": "REPO", "bin": "wrs-emulator", "binary-ext": ""}

    def filled(template):
        return re.sub(r"\{ ([\w-]+) \}", lambda match: given[match[1]], template)

    check("cargo binstall looks for the archive by its name in the release",
          filled(binstall["pkg-url"]) == f"REPO/releases/download/v{package['version']}/{name}.tar.gz" and binstall["pkg-fmt"] == "tgz", binstall)
    check("and for the binary where it is in the archive", filled(binstall["bin-dir"]) in inside, binstall)
    packed = re.search(r'packages/release\.sh pack "\$TARGET" "target/\$TARGET/dist/wrs-emulator" (\w+)$', workflow, re.M)
    check("the workflow makes its files by the same script, and uploads them",
          packed and f'gh release upload "$GITHUB_REF_NAME" {packed[1]}/*' in workflow and all(f"packages/release.sh {step} files" in workflow for step in ("npm", "sums")), packed)


main()
