# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""python -m tests.release.sbom: writes the collection's run-time requirements as a CycloneDX document, with the versions and hashes of the tests.

The same commit gives the same document on every machine.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from importlib.metadata import requires
from pathlib import Path

import yaml
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.runner.model import BUILD, ROOT

from .tarball import released_at

SCHEMA = SchemaVersion.V1_6
# Libraries that the collection sends to the nodes, where they run as root. Also programs that nodes and managers get from their distribution.
CARRIED = ("nvidia-ml-py", "tomli")
OF_THE_DISTRIBUTION = ("docker",)
# A pin of the lock file, with its lines of hashes.
PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*\])?==([^ ;\\\n]+)([^\n]*\n(?:[ ]+[^\n]*\n)*)", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def needed(path: Path) -> list[str]:
    """Return the names in a file of requirements."""
    lines = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    return [canonicalize_name(Requirement(line).name) for line in lines if line]


def closure(names: Iterable[str]) -> dict[str, list[str]]:
    """Return these libraries and all their dependencies, each with its direct dependencies."""
    found: dict[str, list[str]] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        wanted = [Requirement(line) for line in requires(name) or []]
        found[name] = [canonicalize_name(one.name) for one in wanted if not one.marker or one.marker.evaluate({"extra": ""})]
        waiting += [other for other in found[name] if other not in found]
    return found


def libraries(names: Iterable[str]) -> dict[str, Component]:
    pins = {name: (version, rest) for name, version, rest in PIN.findall((ROOT / "tests" / "requirements.lock").read_text())}
    return {name: library(name, *pins[name]) for name in names}


def library(name: str, version: str, rest: str) -> Component:
    where = ["controller"]
    if name in CARRIED:
        where.append("nodes")
    if name in OF_THE_DISTRIBUTION:
        where.append("managers, in their distribution's version")
    purl = PackageURL("pypi", None, name, version)
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=one) for one in HASH.findall(rest)]
    reference = ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(str(purl)), hashes=hashes)
    return Component(
        type=ComponentType.LIBRARY, name=name, version=version, purl=purl, bom_ref=str(purl), external_references=[reference],
        properties=[Property(name="fleet.gpu_swarm:runs-on", value=place) for place in where],
    )  # fmt: skip


def collections(bounds: dict[str, str]) -> Iterator[Component]:
    """Return the collections in galaxy.yml, in the tested versions."""
    import ansible_collections

    for full_name, bound in bounds.items():
        namespace, name = full_name.split(".")
        manifests = [Path(root, namespace, name, "MANIFEST.json") for root in ansible_collections.__path__]
        (manifest, *_others) = [path for path in manifests if path.exists()]
        version = json.loads(manifest.read_text())["collection_info"]["version"]
        yield Component(
            type=ComponentType.LIBRARY, group=namespace, name=name, version=version, bom_ref=f"ansible:{full_name}@{version}",
            properties=[Property(name="fleet.gpu_swarm:any-of", value=bound), Property(name="fleet.gpu_swarm:runs-on", value="controller")],
        )  # fmt: skip


def bill(when: int) -> Bom:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    own = Component(
        type=ComponentType.LIBRARY, group=galaxy["namespace"], name=galaxy["name"], version=galaxy["version"], bom_ref="fleet.gpu_swarm",
        description=galaxy["description"], licenses=[DisjunctiveLicense(id=name) for name in galaxy["license"]],
    )  # fmt: skip
    direct = needed(ROOT / "meta" / "ee-requirements.txt")
    needs = closure([*direct, "ansible-core"])
    found, others = libraries(sorted(needs)), list(collections(galaxy["dependencies"]))
    bom = Bom(components=[*found.values(), *others])
    bom.metadata.component, bom.metadata.timestamp = own, datetime.fromtimestamp(when, timezone.utc)  # noqa: UP017 # mypy reads 3.10
    bom.register_dependency(own, [*(found[name] for name in ("ansible-core", *direct)), *others])
    for name, component in found.items():
        bom.register_dependency(component, [found[other] for other in needs[name]])
    # Derived from the content, not random.
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(sorted(str(one.bom_ref) for one in [own, *bom.components])) + f"\n{when}")
    return bom


def document(when: int) -> str:
    return make_outputter(bill(when), OutputFormat.JSON, SCHEMA).output_as_string(indent=2) + "\n"


def main() -> None:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    target = BUILD / f"{galaxy['namespace']}-{galaxy['name']}-{galaxy['version']}.cdx.json"
    target.write_text(document(released_at(os.environ)))
    print(target.relative_to(ROOT))


if __name__ == "__main__":
    main()
