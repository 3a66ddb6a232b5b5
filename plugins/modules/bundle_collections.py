#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_collections
short_description: Packs this collection and its dependencies for a machine without the internet (internal)
version_added: 0.3.0
description:
  - Writes an archive of each collection into the folder C(collections) of a directory. C(ansible-galaxy collection install --offline) installs these
    archives. The versions are those that are installed on the controller.
  - Then writes the checksums of all files of the directory to F(SHA256SUMS), which C(sha256sum --check) reads.
  - Runs on the controller.
options:
  directory:
    description: The directory. It must exist.
    type: path
    required: true
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes.controller
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.internal
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Pack the collections
  fleet.gpu_swarm.bundle_collections:
    directory: /media/stick/gpu-swarm
"""

RETURN = r"""
collections:
  description: The packed collections, also in check mode.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The collection.
      type: str
      sample: community.general
    version:
      description: The version of the collection.
      type: str
      sample: 4.8.6
    file:
      description: The name of the collection's archive.
      type: str
      sample: community.general-4.8.6.tar.gz
"""
