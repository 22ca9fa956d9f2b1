"""The software bill of materials (CycloneDX, JSON) of what `make setup` installs.

The standard input is the list of Python packages that ``cyclonedx-py`` writes. This program adds
the jars, with their pinned SHA-256, and validates the document with the format's schema. The
repository has no other third-party software. Debian's packages (nginx, its Lua modules, the JDK)
are not listed, because Debian's package database has them. The program runs in the environment of
the tools, so it imports nothing of the project.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SUMS = sorted((Path(__file__).parent / "kafka").glob("*-jars.sha256"))


def jar_components(sums: Iterable[Path]) -> list[dict[str, Any]]:
    """A component for each line of the files: a SHA-256 and a path in a Maven repository."""
    components: dict[str, dict[str, Any]] = {}
    for file in sums:
        for line in file.read_text().splitlines():
            digest, path = line.split(maxsplit=1)
            *group, name, version, _ = path.split("/")
            purl = f"pkg:maven/{'.'.join(group)}/{name}@{version}?type=jar"
            component = {
                "type": "library",
                "bom-ref": purl,
                "group": ".".join(group),
                "name": name,
                "version": version,
                "purl": purl,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
            if components.setdefault(purl, component) != component:
                raise ValueError(f"{file}: another SHA-256 of {path} than in another file")
    return list(components.values())


def with_components(bom: dict[str, Any], added: list[dict[str, Any]]) -> dict[str, Any]:
    """The document with more components, on which its root component depends."""
    root = bom["metadata"]["component"]["bom-ref"]
    refs = [component["bom-ref"] for component in added]
    dependencies = {entry["ref"]: entry for entry in bom.get("dependencies", ())}
    entry = dependencies.get(root, {"ref": root})
    dependencies[root] = {**entry, "dependsOn": sorted({*entry.get("dependsOn", ()), *refs})}
    return {
        **bom,
        "components": [*bom.get("components", ()), *added],
        "dependencies": [*dependencies.values(), *({"ref": ref} for ref in refs)],
    }


def main(output: Path) -> str:
    """Reads the document of the packages from stdin, writes the complete document, and returns a
    summary."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    packages = json.load(sys.stdin)
    jars = jar_components(SUMS)
    bom = with_components(packages, jars)
    text = json.dumps(bom, indent=2) + "\n"
    version = SchemaVersion.from_version(bom["specVersion"])
    if error := JsonStrictValidator(version).validate_str(text):
        sys.exit(f"error: the document is not valid CycloneDX {bom['specVersion']}: {error}")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text)
    count = len(packages["components"])
    return f"{output}: {count} Python packages and {len(jars)} jars, CycloneDX {bom['specVersion']}"


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
