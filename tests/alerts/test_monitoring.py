# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The monitoring stack, with Debian's Prometheus and node_exporter: every panel of both dashboards shows something.

promtool finds errors of syntax only. A join of two metrics fails only when Prometheus evaluates the join.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from plugins.module_utils._ledger.ledger import ledger
from plugins.module_utils._ledger.listed import Listed
from plugins.module_utils._metrics.samples import rendered
from plugins.module_utils._queue.read_queue import queue_in
from plugins.module_utils._watch import card_metrics

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tests" / "unit" / "support"))
from swarm_api import A, B, cluster, discrete, named, node, pending, reserving, service, task  # noqa: E402

BUILD = ROOT / "build"
STACK = ROOT / "docs/examples/stacks/monitoring"
RULES = ROOT / "docs/examples/alerts/gpu-swarm.rules.yml"
DASHBOARDS = [ROOT / f"docs/examples/alerts/{name}.dashboard.json" for name in ("gpu-swarm", "gpu-swarm-cards")]
C = "GPU-5fa2e7a4-8888-4c53-9d1f-0c9a7d1e2f32"
SHARED = [f"{C}.slot1", f"{C}.slot2"]
LIMIT_S = 120
DCGM = f'# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge\nDCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",UUID="{A}",Hostname="host-n1"}} 0.5\n'


def swarm(now: float) -> str:
    """Return the metrics of a swarm in which something is allocated, shared, free, faulty, paused, pending and unused.

    In a queue, work runs and other work waits.
    """
    faulty = node("n2", availability="pause", resources=named(B), engine="29.6.1")
    faulty["Description"]["Engine"]["Labels"] = {"fleet.gpu-swarm.health": f"fault {B} reason=lost since={now - 60:.0f}"}
    faulty["UpdatedAt"] = "2026-11-20T12:00:00Z"
    nodes = [node("n1", leader=True, resources=[*named(A), *named(*SHARED, kind="SLOT"), *discrete(16000)]), faulty]
    tasks = [
        task("t1", given=[*named(A), *discrete(6000)]),
        task("t2", service="s2", given=named(SHARED[0], kind="SLOT")),
        task("t3", service="s3", given=named(SHARED[1], kind="SLOT")),
        pending("t4", {"NVIDIA-GPU": 1}, service="s4", since="2026-11-20T12:00:00Z"),
    ]
    services = [service(f"s{number}", name) for number, name in enumerate(("train", "infer", "notebook", "large"), 1)]
    tasks.append(task("t5", service="s5", given=discrete(2000), reserves={"VRAM": 2000}))
    services += [in_queue("s5", "admitted attempt=1 node=n1 admission=k1", replicas=1), in_queue("s6", "waiting", replicas=0)]
    listed = Listed(nodes, tasks, services, now)
    found = ledger(listed, "gpu-swarm.", ["*"])
    found["queue"] = queue_in(listed, cluster({"gpu-swarm.queues": '{"research":{}}'})["Spec"], now)
    found["owners"] = {"train": "alice", "infer": "bob"}
    unused = {"name": "no-load", "hostname": "host-n1", "node": "n1", "card": A, "service": "train", "since": "2026-11-20T12:00:00Z"}
    found["allocation_findings"] = [unused]
    found["swarm"] = {"id": "c1", "lease": None, "isolation": None, "last_run": None}
    return rendered(found, now, "reactor")


def in_queue(service_id: str, state: str, replicas: int) -> dict[str, Any]:
    template = {"Resources": reserving({"VRAM": 2000}), "RestartPolicy": {"Condition": "none"}}
    labels = {"gpu-swarm.queue": "research", "gpu-swarm.queue-state": state}
    spec = {"Name": f"work-{service_id}", "Labels": labels, "Mode": {"Replicated": {"Replicas": replicas}}, "TaskTemplate": template}
    return {"ID": service_id, "CreatedAt": "2026-11-20T12:00:00Z", "UpdatedAt": "2026-11-20T12:00:00Z", "Spec": spec}


def cards(now: float) -> str:
    card = {"temperature_c": 71, "power_w": 650.5, "power_limit_w": 700.0, "utilisation_percent": 7, "sm_clock_mhz": 1755, "throttle": ["hw_thermal"]}
    memory = {"memory_used_mib": 2, "memory_mib": 81559, "processes": 1}
    return card_metrics.rendered([{"uuid": uuid, **card, **memory} for uuid in (A, B, C)], now)


class Prometheus(NamedTuple):
    url: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        parameters = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query?{parameters}", timeout=30) as answer:
                return list(json.load(answer)["data"]["result"])
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from None

    def is_scraping(self) -> bool:
        try:
            return len(self.query("gpu_swarm:owner_resource_hours:1h")) > 0 and len(self.query("DCGM_FI_PROF_GR_ENGINE_ACTIVE")) > 0
        except OSError:  # it has just been started
            return False


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("monitoring")
    now = time.time()
    files = {"node-exporter": {"gpu-swarm.prom": swarm(now), "gpu-swarm-cards.prom": cards(now)}, "dcgm-exporter": {"dcgm.prom": DCGM}}
    commands, targets = [], {}
    for name, texts in files.items():
        (folder / name).mkdir()
        for file, text in texts.items():
            (folder / name / file).write_text(text)
        targets[f"tasks.{name}"] = f"127.0.0.1:{free_port()}"
        options = ["--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={folder / name}"]
        commands.append([str(BUILD / "prometheus-node-exporter"), *options, f"--web.listen-address={targets[f'tasks.{name}']}"])
    address = f"127.0.0.1:{free_port()}"
    (folder / "prometheus.yml").write_text(config(folder, targets, address))
    # The rules are evaluated each second, and an hour consists of seconds, so that the test does not wait for minutes.
    (folder / "rules.yml").write_text(RULES.read_text().replace("interval: 1m", "interval: 1s").replace("[1h:1m]", "[1h:1s]"))
    options = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    commands.append([str(BUILD / "prometheus"), *options])
    with (folder / "log").open("wb") as log:
        running = [subprocess.Popen(command, stdout=log, stderr=log) for command in commands]
    try:
        found = Prometheus(f"http://{address}")
        wait_until(found.is_scraping, (folder / "log").read_text)
        yield found
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(timeout=60)


def config(folder: Path, targets: dict[str, str], own: str) -> str:
    """Return the stack's configuration with addresses of this machine instead of names in Swarm's DNS."""
    found = yaml.safe_load((STACK / "prometheus.yml").read_text())
    found["rule_files"] = [str(folder / "rules.yml")]
    found["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    for job in found["scrape_configs"]:
        discovered = job.pop("dns_sd_configs", [])
        if discovered:
            job["static_configs"] = [{"targets": [targets[name] for entry in discovered for name in entry["names"]]}]
        else:
            job["static_configs"] = [{"targets": [own]}]
    return yaml.safe_dump(found)


def wait_until(condition: Callable[[], bool], failure: Callable[[], str]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, failure()[-3000:]
        time.sleep(0.2)


PANELS = [(path.name, panel) for path in DASHBOARDS for panel in json.loads(path.read_text())["panels"]]


@pytest.mark.parametrize(("dashboard", "panel"), PANELS, ids=[f"{name}-{panel['title']}" for name, panel in PANELS])
def test_each_panel_shows_something(prometheus: Prometheus, dashboard: str, panel: dict[str, Any]) -> None:
    expression = panel["targets"][0]["expr"].replace("$node", ".*").replace("$owner", ".*").replace("[7d:1h]", "[5m:1s]")
    wait_until(lambda: bool(prometheus.query(expression)), lambda: f"{dashboard}: {expression} returns nothing")


def test_a_card_that_two_services_share_has_one_line_and_a_free_card_no_owner(prometheus: Prometheus) -> None:
    found = {line["metric"]["UUID"]: line["metric"] for line in prometheus.query("gpu_swarm:card")}
    assert {uuid: (line["node"], line.get("owner", "")) for uuid, line in found.items() if uuid != C} == {A: ("host-n1", "alice"), B: ("host-n2", "")}
    assert (found[C]["node"], found[C]["service"] in ("infer", "notebook")) == ("host-n1", True)


def test_no_rule_fails(prometheus: Prometheus) -> None:
    with urllib.request.urlopen(f"{prometheus.url}/api/v1/rules", timeout=30) as answer:
        rules = [rule for group in json.load(answer)["data"]["groups"] for rule in group["rules"]]
    assert len(rules) > 20
    assert [rule for rule in rules if rule["health"] != "ok"] == []


def test_the_stack_uses_the_files_that_are_there() -> None:
    stack = yaml.safe_load((STACK / "compose.yml").read_text())
    assert [name for name, entry in stack["configs"].items() if not (STACK / entry["file"]).is_file()] == []
    used = {entry["source"] for one in stack["services"].values() for entry in one.get("configs", ())}
    assert used == set(stack["configs"])
    dns = {
        name
        for job in yaml.safe_load((STACK / "prometheus.yml").read_text())["scrape_configs"]
        for entry in job.get("dns_sd_configs", ())
        for name in entry["names"]
    }
    assert dns == {"tasks.node-exporter", "tasks.dcgm-exporter"} == {f"tasks.{name}" for name in stack["services"] if name.endswith("exporter")}
    assert all(re.search(r":v?\d", one["image"]) for one in stack["services"].values())
