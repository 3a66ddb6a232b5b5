# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a node's files as dockerd and systemd do, with parsers of the standard library and no code of the collection.

So the tests find errors in the collection's parsers, because the daemon of the tests does not use these parsers.
"""

from __future__ import annotations

import argparse
import codecs
import json
import re
import shlex

INTEGER = re.compile(r"[+-]?[0-9]+")


class Refused(Exception):
    """dockerd would not start with this configuration."""


def document(content):
    """Parse daemon.json, in any Unicode encoding with a byte order mark (moby daemon/config). An empty file is an empty object."""
    text = content.decode("utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig")
    try:
        found = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise Refused(f"unable to configure the Docker daemon: {error}") from error
    if not isinstance(found, dict):
        raise Refused("unable to configure the Docker daemon: cannot unmarshal into a map")
    return found


def generic_resources(listed):
    """Return a list of KIND=value in the form of ``GET /info`` (swarmkit api/genericresource/parse.go)."""
    kinds = {}
    for entry in listed:
        kind, equals, value = entry.partition("=")
        if not equals or "=" in value:
            raise Refused(f"could not parse GenericResource: incorrect term {entry}, expected format 'KIND=value'")
        kinds.setdefault(kind.strip(), []).append(value.strip())
    shown = []
    for kind, values in kinds.items():
        numbers = [value for value in values if INTEGER.fullmatch(value)]
        if not numbers:
            shown += [{"NamedResourceSpec": {"Kind": kind, "Value": value}} for value in values]
        elif len(values) == 1 and int(values[0]) >= 0:
            shown.append({"DiscreteResourceSpec": {"Kind": kind, "Value": int(values[0])}})
        else:
            raise Refused(f"could not parse GenericResource: mixed discrete and named resources in {values}")
    return shown


def entries(shown):
    """Return the list of KIND=value, the reverse of generic_resources()."""
    both = [one.get("NamedResourceSpec") or one["DiscreteResourceSpec"] for one in shown]
    return sorted(f"{one['Kind']}={one['Value']}" for one in both)


def flags(argv):
    """Return the flags of dockerd that daemon.json must not repeat, as {key of daemon.json: values}."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--default-runtime", dest="default-runtime", action="append")
    parser.add_argument("--node-generic-resource", "--node-generic-resources", dest="node-generic-resources", action="append")
    parser.add_argument("--default-shm-size", dest="default-shm-size", action="append")
    parser.add_argument("-H", "--host", dest="hosts", action="append")
    known, _others = parser.parse_known_args(argv)
    return {key: values for key, values in vars(known).items() if values}


# -- systemd ---------------------------------------------------------------------------------------------------------


def assignments(text):
    """Yield (section, name, value) of a unit or an environment file. A backslash at the end continues a line."""
    section = ""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        line = line.strip()
        name, equals, value = line.partition("=")
        if line.startswith("["):
            section = line.strip("[]")
        elif equals and line[0] not in "#;":
            yield section, name.strip(), value.strip()


def command(units, environment):
    """Return the command that systemd would start, from the texts of the unit, its drop-ins and the environment files, in their order."""
    argv, values = [], {}
    for section, name, value in (one for text in units for one in assignments(text)):
        if (section, name) == ("Service", "ExecStart"):
            argv = shlex.split(value)  # an empty value resets the former ones
        elif (section, name) == ("Service", "Environment"):
            values.update(word.partition("=")[::2] for word in shlex.split(value))
    for text in environment:
        values.update((name, "".join(shlex.split(value)) if value[:1] in ('"', "'") else value) for _none, name, value in assignments(text))
    found = []
    for word in argv:
        variable = re.fullmatch(r"\$(\w+)|\$\{(\w+)\}", word)
        found += values.get(variable[1] or variable[2], "").split() if variable else [word]
    return found
