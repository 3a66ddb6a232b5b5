# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the documented options of a module, including those of its documentation fragments."""

from __future__ import annotations

import importlib

import yaml

PLUGINS = "ansible_collections.fleet.gpu_swarm.plugins"


def options(module):
    """Return the options of a module of this collection, merged as ``ansible-doc`` does: the module overrides its fragments."""
    said = yaml.safe_load(importlib.import_module(f"{PLUGINS}.modules.{module}").DOCUMENTATION)
    merged = {}
    for name in said.get("extends_documentation_fragment", []):
        merged.update(_fragment(name).get("options") or {})
    return {**merged, **(said.get("options") or {})}


def _fragment(name):
    """Return a fragment: ``fleet.gpu_swarm.attributes.info_module`` is the variable INFO_MODULE of plugins/doc_fragments/attributes.py."""
    _namespace, _collection, file, *variable = name.split(".")
    fragment = importlib.import_module(f"{PLUGINS}.doc_fragments.{file}").ModuleDocFragment
    return yaml.safe_load(getattr(fragment, (variable or ["DOCUMENTATION"])[0].upper()))
