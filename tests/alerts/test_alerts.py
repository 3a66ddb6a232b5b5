# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prometheus' own tool accepts the metrics, alert rules and dashboard, and they use only existing metrics."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from plugins.module_utils._ledger.ledger import ledger
from plugins.module_utils._ledger.listed import Listed
from plugins.module_utils._metrics.metric_names import METRICS
from plugins.module_utils._metrics.samples import rendered
from plugins.module_utils._tasks.tasks import epoch
from plugins.module_utils._watch.card_metrics import METRICS as CARD_METRICS

from .promtool import accepts, promtool

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tests" / "unit" / "support"))
import swarm_api  # noqa: E402

RULES = ROOT / "docs/examples/alerts/gpu-swarm.rules.yml"
FLEET, CARDS = (ROOT / f"docs/examples/alerts/{name}.dashboard.json" for name in ("gpu-swarm", "gpu-swarm-cards"))
DASHBOARDS = {FLEET: [("datasource", "datasource"), ("node", "query")], CARDS: [("datasource", "datasource"), ("node", "query"), ("owner", "query")]}
CASES = HERE / "gpu-swarm.tests.yml"
GROUP = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]
ALERTS = [rule["alert"] for rule in GROUP["rules"] if "alert" in rule]
LABELS = {metric.name: {*metric.labels, "instance", "job"} for metric in (*METRICS, *CARD_METRICS)}
RECORDED = {rule["record"] for rule in GROUP["rules"] if "record" in rule}


def expressions() -> list[str]:
    return [rule["expr"] for rule in GROUP["rules"]] + [expr for panel in panels() for expr in queries(panel)]


def panels(dashboard: Path | None = None) -> list[dict[str, Any]]:
    """Return the panels of a dashboard, or of all dashboards."""
    return [panel for path in ([dashboard] if dashboard else DASHBOARDS) for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]]


def queries(panel: dict[str, Any]) -> Iterator[str]:
    yield from (target["expr"] for target in panel.get("targets", []))


def test_promtool_accepts_the_metrics_of_a_recorded_swarm() -> None:
    swarm = [swarm_api.recorded(what) for what in ("nodes", "tasks", "services")]
    now = epoch(swarm_api.RECORDED_AT)
    assert now
    found = {**ledger(Listed(*swarm, now), "gpu-swarm.", ["*"]), "swarm": {"id": "c1", "lease": None}}
    accepts(rendered(found, now, "status"))


def test_promtool_accepts_hostile_names() -> None:
    one = swarm_api.node(resources=swarm_api.named('GPU-"}\n1', "GPU-\\", kind='a"b\nc'))
    one["Description"]["Hostname"] = '\\"} 1\n# TYPE x counter\nx 5\n\ud800'
    found = {**ledger(Listed([one], [], [], 1.0), "gpu-swarm."), "swarm": {"id": "c1", "lease": None}}
    text = rendered(found, 1.0, "status")
    accepts(text)
    assert [line for line in text.splitlines() if not re.match(r"gpu_swarm_|# (?:HELP|TYPE) gpu_swarm_", line)] == []


def test_promtool_finds_errors() -> None:
    """If promtool found no errors, the tests above could not fail."""
    assert promtool("check", "metrics", text='a{b="c"} 1\na{b="c"} 2\n').returncode != 0
    counter = "# HELP gpu_swarm_seen_total x\n# TYPE gpu_swarm_seen_total gauge\ngpu_swarm_seen_total 1\n"
    assert promtool("check", "metrics", text=counter).returncode != 0


def test_promtool_accepts_the_rules() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(GROUP['rules'])} rules found" in done.stdout


def test_the_rules_follow_their_cases() -> None:
    done = promtool("test", "rules", CASES.name, cwd=HERE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_case_that_raises_it_and_one_that_does_not(alert: str) -> None:
    cases = [case for one in yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"] for case in one.get("alert_rule_test", ())]
    raised = {bool(case.get("exp_alerts")) for case in cases if case["alertname"] == alert}
    assert raised == {True, False}


@pytest.mark.parametrize("rule", GROUP["rules"], ids=lambda rule: rule.get("alert") or rule["record"])
def test_each_manager_s_file_raises_one_alert_and_an_old_file_none(rule: dict[str, Any]) -> None:
    if "alert" in rule and "snapshot_timestamp" not in rule["expr"]:
        read = re.findall(r"gpu_swarm_\w+", rule["expr"])
        assert len(read) == rule["expr"].count("and on (instance, job) gpu_swarm:fresh") == rule["expr"].count("max without (instance)")


@pytest.mark.parametrize("expression", expressions())
def test_expressions_read_existing_metrics_and_labels(expression: str) -> None:
    read = re.findall(r"gpu_swarm[\w:]+", expression)
    assert read
    assert set(read) - LABELS.keys() - RECORDED == set()
    for name, chosen in re.findall(r"(gpu_swarm_\w+)\{(.*?)\}", expression):
        assert set(re.findall(r"(\w+)\s*(?:=|!)", chosen)) <= LABELS[name]


def test_promtool_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(expr for panel in panels() for expr in queries(panel))]
    assert len(rules) > 8
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = promtool("check", "rules", str(tmp_path / "rules.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_a_dashboard_accepts_any_data_source_and_has_no_fixed_id(path: Path) -> None:
    made, found = json.loads(path.read_text(encoding="utf-8")), panels(path)
    assert made["id"] is None
    assert [(variable["name"], variable["type"]) for variable in made["templating"]["list"]] == DASHBOARDS[path]
    sources = [target.get("datasource", panel["datasource"]) for panel in found for target in panel["targets"]]
    assert {source["uid"] for source in sources} == {"${datasource}"}
    places = [tuple(panel["gridPos"].values()) for panel in found]
    assert len(set(places)) == len({panel["id"] for panel in found}) == len(found)


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_of_the_dashboard_says_what_it_shows_and_shows_one_number(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert len(panel["targets"]) == 1
    assert panel["fieldConfig"]["defaults"].get("unit") or panel["type"] == "table"


def test_each_state_of_a_card_has_a_colour_and_a_word() -> None:
    cards = panels(FLEET)[0]
    states = {str(number) for number in range(4)}
    assert set(re.findall(r"\* 0(?: \+ (\d))?", cards["targets"][0]["expr"])) == {"", "1", "2", "3"}
    mapped = cards["fieldConfig"]["defaults"]["mappings"][0]["options"]
    assert mapped.keys() == states == {number for number, shown in mapped.items() if shown["text"] and shown["color"]}
