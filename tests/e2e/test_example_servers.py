# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Debian's Prometheus, node_exporter and nginx run from the stack files of docs/examples, in images that the lab makes of Debian's packages.

Prometheus scrapes real nodes, with the rules as they are. nginx serves the page that a manager writes. dcgm-exporter and Grafana are left out.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.lab import families
from tests.lab.lab import CHECKOUT
from tests.unit.support.certificates import Authority

from . import one_story
from .fleet import Fleet, Node, Run, at_hand, wait_until
from .swarm import KIND, named
from .work import all_running, containers

pytestmark = pytest.mark.rare

NAME = "e2e-servers"
FLEET = """
nodes:
  m1: {groups: [swarm_managers]}
  g1: {gpus: t4x4, toolkit: 1.20.0}
  g2: {gpus: rtx4090x2, toolkit: 1.20.0}
"""
HOSTS = ["m1", "g1", "g2"]
EXAMPLES = CHECKOUT / "docs" / "examples"
TEXTFILES = "/var/lib/prometheus/node-exporter"
SETTINGS = {"gpu_swarm_page": True, "gpu_node_textfile": TEXTFILES}
# A scrape is due after 30 s, a reading and an evaluation of the rules after a minute each.
SOON_S = 240


class Image(NamedTuple):
    """An image of a program, made of the Debian packages whose names begin with ``packages``. ``replaces`` is the image of the example."""

    name: str
    packages: str
    entrypoint: list[str]
    replaces: str


PROMETHEUS = Image("lab/prometheus", "prometheus_", ["/usr/bin/prometheus"], "prom/prometheus:v3.5.0")
NODE_EXPORTER = Image("lab/node-exporter", "prometheus-node-exporter_", ["/usr/bin/prometheus-node-exporter"], "prom/node-exporter:v1.9.1")
NGINX = Image("lab/nginx", "nginx", ["/usr/sbin/nginx", "-g", "daemon off;"], "nginx:1.28-alpine")
# Makes an image of the packages in this folder, with the libraries of this node. Arguments: folder, image, program, change of the image.
MAKE = r"""
set -e
cd "$1"
rm -rf tree
mkdir tree
for package in *.deb; do dpkg-deb --extract "$package" tree; done
if ldd "tree$3" | grep 'not found'; then exit 1; fi
ldd "tree$3" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "tree${library%/*}"
    cp --dereference "$library" "tree$library"
done
mkdir -p tree/tmp tree/run tree/proc tree/sys tree/dev tree/etc tree/host tree/prometheus tree/var/log/nginx tree/var/lib/nginx
cp /etc/passwd /etc/group tree/etc/
tar --create --directory tree . | docker import --change "$4" - "$2"
rm -r "$1"
"""
# Sends a query to Prometheus in the network of its container, and prints the answer. Prometheus publishes no port.
QUERY = """
import sys, urllib.parse, urllib.request
path, *query = sys.argv[1:]
url = "http://127.0.0.1:9090/api/v1/" + path + "?" + urllib.parse.urlencode({"query": word for word in query})
sys.stdout.write(urllib.request.urlopen(url, timeout=30).read().decode())
"""
# Requests a page with or without a login, and prints the status and the body.
REQUEST = """
import base64, ssl, sys, urllib.error, urllib.request
url, *login = sys.argv[1:]
headers = {"Authorization": "Basic " + base64.b64encode(word.encode()).decode() for word in login}
try:
    answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30, context=ssl._create_unverified_context())
except urllib.error.HTTPError as error:
    answer = error
sys.stdout.buffer.write(b"%d %s" % (answer.status, answer.read()))
"""
# The password "secret" as bcrypt, with the lowest cost.
USERS = "alice:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"


def make(node: Node, image: Image) -> None:
    folder = f"/root/{image.name}"
    for package in families.debs("debian13", "servers"):
        if package.name.startswith(image.packages):
            node.write(f"{folder}/{package.name}", package.read_bytes())
    node.run("sh", "-c", MAKE, "-", folder, image.name, image.entrypoint[0], f"ENTRYPOINT {json.dumps(image.entrypoint)}")


@pytest.fixture(scope="module")
def fleet(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    work = tmp_path_factory.mktemp("servers")
    (work / "fleet.yml").write_text(FLEET)
    yield from at_hand(NAME, work / "fleet.yml", pytestconfig.getoption("--fleet"), work)


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    """Provision as docs/operate/monitoring.md and page.md say, and start services of two owners."""
    made = fleet.inventory(swarm_managers=["m1"], gpu_nodes=["g1", "g2"])
    for name in HOSTS:
        fleet[name].run("mkdir", "-p", TEXTFILES)
        # systemd does this at boot, but not in a container. Docker needs it for the propagation `rslave`.
        fleet[name].run("mount", "--make-rshared", "/")
    run = fleet.playbook(made, "--extra-vars", json.dumps(SETTINGS))
    assert run.rc == 0, run.output
    for service, owner, replicas in (("train", "alice", 2), ("chat", "bob", 1)):
        create = ("service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", service, "--replicas", str(replicas))
        fleet["m1"].docker(*create, "--label", f"gpu-swarm.owner={owner}", "--generic-resource", f"{KIND}=1", "lab/task", "sleep", "infinity")
    return made


def holders(fleet: Fleet) -> dict[str, str]:
    """Return the owner of each allocated card, from Docker's API."""
    found = {}
    for service, owner, replicas in (("train", "alice", 2), ("chat", "bob", 1)):
        for task in wait_until(service, lambda service=service, replicas=replicas: all_running(fleet["m1"], service, replicas)):
            (card,) = named(task["GenericResources"])[KIND]
            found[card] = owner
    return found


def deploy(fleet: Fleet, inventory: Path, compose: Path, stack: str) -> None:
    """Deploy a stack, in a folder with its files."""
    arguments = ("-e", f"compose={compose}", "-e", f"stack={stack}")
    run: Run = fleet.playbook(inventory, *arguments, playbook="fleet.gpu_swarm.deploy", env={"MONITORING_NODE": "m1"})
    assert run.rc == 0, run.output


# -- Prometheus and node_exporter ----------------------------------------------------------------------------------------


class Prometheus:
    def __init__(self, node: Node) -> None:
        (container,) = containers(node, "monitoring_prometheus")
        self.node, self.pid = node, node.docker("inspect", "--format", "{{.State.Pid}}", container)
        self.container = container

    def ask(self, path: str, *query: str) -> Any:
        done = self.node.start("nsenter", "--net", "--target", self.pid, "--", "python3", "-c", QUERY, path, *query, check=False)
        return json.loads(done.stdout)["data"] if done.returncode == 0 else {}

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        return [(one["metric"], float(one["value"][1])) for one in self.ask("query", expression).get("result", [])]

    def by(self, label: str, expression: str) -> dict[str, float]:
        return {labels.get(label, ""): value for labels, value in self.query(expression)}

    def log(self) -> str:
        return self.node.run("sh", "-c", f"docker logs --tail 50 {self.container} 2>&1")


@pytest.fixture(scope="module")
def prometheus(fleet: Fleet, inventory: Path, tmp_path_factory: pytest.TempPathFactory) -> Prometheus:
    make(fleet["m1"], PROMETHEUS)
    for name in HOSTS:
        make(fleet[name], NODE_EXPORTER)
    folder = tmp_path_factory.mktemp("monitoring")
    shutil.copytree(EXAMPLES / "alerts", folder / "alerts")
    shutil.copytree(EXAMPLES / "stacks" / "monitoring", folder / "stacks" / "monitoring")
    compose = folder / "stacks" / "monitoring" / "compose.yml"
    stack = yaml.safe_load(compose.read_text())
    services = {name: stack["services"][name] for name in ("prometheus", "node-exporter")}
    for (name, service), image in zip(services.items(), (PROMETHEUS, NODE_EXPORTER), strict=True):
        assert service["image"] == image.replaces, name
        service["image"] = image.name
    used = {entry["source"] for service in services.values() for entry in service.get("configs", ())}
    configs = {name: config for name, config in stack["configs"].items() if name in used}
    compose.write_text(yaml.safe_dump({"services": services, "configs": configs, "volumes": {"history": {}}}))
    deploy(fleet, inventory, compose, "monitoring")
    wait_until("Prometheus", lambda: containers(fleet["m1"], "monitoring_prometheus"))
    return Prometheus(fleet["m1"])


def test_prometheus_scrapes_every_node(fleet: Fleet, prometheus: Prometheus) -> None:
    def found() -> list[float]:
        return [value for _labels, value in prometheus.query('up{job="node"}')]

    wait_until("each node", lambda: found() == [1.0] * len(HOSTS), SOON_S, lambda: (found(), prometheus.log()))
    directory = prometheus.query("node_textfile_scrape_error")
    assert [value for _labels, value in directory] == [0.0] * len(HOSTS)


def test_the_metrics_of_cards_and_of_owners_join(fleet: Fleet, prometheus: Prometheus) -> None:
    expected = holders(fleet)
    cards = {card for name in ("g1", "g2") for card in fleet[name].gpus()}

    def read() -> set[str]:
        return set(prometheus.by("UUID", "gpu_swarm_card_temperature_celsius"))

    def owned() -> dict[str, str]:
        return {labels["UUID"]: labels["owner"] for labels, _value in prometheus.query("gpu_swarm_gpu_allocated")}

    wait_until("the readings of the cards", lambda: read() == cards, SOON_S, lambda: (read(), prometheus.log()))
    wait_until("the managers' metrics", lambda: owned() == expected, SOON_S, lambda: (owned(), prometheus.log()))

    def joined() -> dict[str, str]:
        found = prometheus.query("gpu_swarm_card_temperature_celsius * on (UUID) group_left (node, owner) gpu_swarm:card")
        return {labels["UUID"]: labels.get("owner", "") for labels, _value in found}

    wait_until("the join", lambda: joined() == {card: expected.get(card, "") for card in cards}, SOON_S, lambda: (joined(), prometheus.log()))


def test_the_rules_count_gpu_hours_of_each_owner(fleet: Fleet, prometheus: Prometheus) -> None:
    """Each evaluation counts one minute: 2/60 hours for the two cards of alice, 1/60 for the card of bob."""

    def minutes() -> dict[str, float]:
        return {owner: hours * 60 for owner, hours in prometheus.by("owner", "gpu_swarm:owner_resource_hours:1h").items()}

    found = wait_until("two minutes", lambda: minutes() if minutes().get("bob", 0) >= 2 else None, SOON_S, lambda: (minutes(), prometheus.log()))
    assert set(found) == {"alice", "bob"}
    assert found["alice"] == pytest.approx(2 * found["bob"])
    assert found["bob"] == pytest.approx(round(found["bob"]))
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 20
    assert [rule for rule in rules if rule["health"] != "ok"] == []
    # Nothing is wrong on this fleet.
    assert [rule["name"] for rule in rules if rule["type"] == "alerting" and rule["state"] == "firing"] == []


# -- nginx ---------------------------------------------------------------------------------------------------------------


def test_nginx_serves_the_page_to_people_with_a_password(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    make(fleet["m1"], NGINX)
    text = (EXAMPLES / "stacks" / "page-nginx.yml").read_text()
    assert NGINX.replaces in text
    (tmp_path / "page-nginx.yml").write_text(text.replace(NGINX.replaces, NGINX.name))
    shutil.copytree(EXAMPLES / "stacks" / "page", tmp_path / "page")
    (tmp_path / "users").write_text(USERS)
    (tmp_path / "authority").mkdir()
    for name, file in zip(("certificate.pem", "key.pem"), Authority(tmp_path / "authority").pair("m1"), strict=True):
        shutil.copy(file, tmp_path / name)
    deploy(fleet, inventory, tmp_path / "page-nginx.yml", "page")
    manager, other, url = fleet["m1"], fleet["g1"], f"https://{fleet['m1'].address}:8443/"

    def answer(*login: str) -> str:
        return other.start("python3", "-c", REQUEST, url, *login, check=False).stdout.decode()

    def log() -> str:
        return manager.run("sh", "-c", "docker service logs page_nginx 2>&1", check=False)

    wait_until("nginx", lambda: answer().startswith("401 "), shown=log)
    assert answer("alice:wrong").startswith("401 ")
    status, _space, html = answer("alice:secret").partition(" ")
    assert status == "200", log()
    # The page is the one of the last readings, with the services of this fleet.
    wait_until("a page with both owners", lambda: set(owners_of(answer("alice:secret"))) == {"alice", "bob"}, SOON_S, log)
    assert "GPU fleet" in html


def owners_of(answer: str) -> list[str]:
    found = one_story.cards_of_page(one_story.page_data(answer))
    return [owner for _service, owner in found.holders.values()]
