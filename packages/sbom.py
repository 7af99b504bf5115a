#!/usr/bin/env python3
"""Prints the crates linked into the binary as a CycloneDX document. Usage: sbom.py TARGET > FILE

Names, versions, checksums, licences and dependencies as Cargo.lock and `cargo metadata` have them; crates that only build or test
are left out. No time and no random number: the same lock file gives the same document.
"""

import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    target, = sys.argv[1:]
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(entry["name"], entry["version"]): entry.get("checksum") for entry in lock}
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    own = metadata["resolve"]["root"]

    def linked(identity):
        return [dep["pkg"] for dep in nodes[identity]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]

    found, ahead = {own}, [own]
    while ahead:
        new = set(linked(ahead.pop())) - found
        found |= new
        ahead += new

    def url(identity):
        return f"pkg:cargo/{packages[identity]['name']}@{packages[identity]['version']}"

    def component(identity):
        package = packages[identity]
        checksum = checksums[package["name"], package["version"]]
        return {
            "type": "application" if identity == own else "library",
            "bom-ref": url(identity),
            "name": package["name"],
            "version": package["version"],
            **({"hashes": [{"alg": "SHA-256", "content": checksum}]} if checksum else {}),
            # Older crates write `/` for OR.
            "licenses": [{"expression": package["license"].replace("/", " OR ")}],
            "purl": url(identity),
        }

    sorted_ids = sorted(found, key=url)
    print(json.dumps({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(own), "properties": [{"name": "cargo:target", "value": target}]},
        "components": [component(identity) for identity in sorted_ids if identity != own],
        "dependencies": [{"ref": url(identity), "dependsOn": sorted({url(dep) for dep in linked(identity)})} for identity in sorted_ids],
    }, indent=2))


main()
