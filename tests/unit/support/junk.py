# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Compose file with values of every type, all places in this file, and wrong values for these places."""

from __future__ import annotations

from typing import Any

import yaml

WHOLE = """
services:
  a:
    image: i
    env_file: [{path: a.env}]
    environment: {A: b}
    labels: [a=b]
    logging: {driver: gelf}
    depends_on: {b: {condition: service_healthy}}
    networks: {n: {aliases: [x]}}
    healthcheck: {test: [CMD, x], retries: 1}
    ports: ['1:2', {target: 1, published: 2, mode: host}]
    volumes: ['data:/b', {type: volume, source: v, target: /c, volume: {nocopy: true}}, {type: tmpfs, target: /t, tmpfs: {size: 1}}]
    configs: [{source: c, target: /c, mode: 0440}]
    deploy:
      mode: replicated
      replicas: 1
      labels: {x: y}
      placement: {constraints: [node.role==worker], max_replicas_per_node: 1}
      resources:
        limits: {cpus: 1, memory: 1g}
        reservations:
          devices: [{count: 1, capabilities: [gpu]}]
          generic_resources: [{discrete_resource_spec: {kind: K, value: 1}}]
          cpus: 0.5
          memory: 4m
  b: {image: i, gpus: [{count: 1}]}
networks: {n: {driver: bridge}}
volumes: {data: , v: {driver: d}}
configs: {c: {content: x}}
secrets: {s: {file: a.env}}
"""
JUNK = [None, True, 0, -1, 1.5, "", "text", "$", "${", "a:b:c", [], [None], [1], ["x"], [[]], {}, {"x": None}, {"x": {}}, [{}], [{"x": 1}]]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(one for key, item in items for one in places(item, (*path, key)))]


PLACES = places(yaml.safe_load(WHOLE))[1:]
