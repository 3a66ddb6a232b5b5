# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of the fleet: what it contains, what it leaves out, and that no text of a user becomes HTML or script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from page_fleet import AT, CARD, card, node, part, status

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._page.page import PLACES, page, to_json
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._page.page_data import page_data, verdict
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._page_template.page_template import FOLDER, SCRIPTS, STYLES, page_template

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e\"'&@@data@@\ud800\n"


class Elements(HTMLParser):
    """Collects each element with its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found:
            key = self.found[-1][1].get("id") or self.found[-1][0]
            self.texts[key] = self.texts.get(key, "") + data


def made(given=None, cards=(), usage=(), days=(), events=(), **more):
    return page_data(given or status(), list(cards), list(usage), list(days), list(events), AT, "m1", **more)


def shown(data):
    return Elements(page(page_template(), data))


# -- the verdict -----------------------------------------------------------------------------------------------------

PAUSED = node("g1", "failed", "paused for a fault", f"{CARD} XID 79 (PCI address 00000000:C1:00.0, slot 12); it returns to active with the first run")
TWICE = {"node": "g1", "what": "allocated twice", "details": "a and b"}
PENDING = {"service": "train", "verdict": "waiting", "text": "needs 2 GPUs", "needed": 1}


@pytest.mark.parametrize(
    ("given", "level", "headline", "reasons"),
    [
        (status(), "green", "All is well", []),
        (status(node("g1")), "green", "All is well", []),
        (status(PAUSED), "red", "1 wrong", [("red", "g1", "paused for a fault: GPU-01234567… XID 79")]),
        (status(node("g1", "untouched", "down")), "red", "1 wrong", [("red", "g1", "down")]),
        (status(pending=[PENDING]), "amber", "1 waiting", [("amber", "train", "needs 2 GPUs")]),
        (status(node("g2", "waiting", "drained"), PAUSED, pending=[dict(PENDING, verdict="done")]), "red", "1 wrong, 1 waiting",
         [("red", "g1", "paused for a fault: GPU-01234567… XID 79"), ("amber", "g2", "drained")]),
        (status(faulty=[TWICE]), "red", "1 wrong", [("red", "g1", "allocated twice: a and b")]),
    ],
)  # fmt: skip
def test_the_verdict(given, level, headline, reasons):
    found = verdict(given)
    assert (found["level"], found["headline"], found["more"]) == (level, headline, 0)
    assert [(reason["level"], reason["name"], reason["text"]) for reason in found["reasons"]] == reasons


def test_the_verdict_names_a_few_reasons_and_counts_the_others():
    found = verdict(status(*(node(f"g{number}", "failed", "down") for number in range(20))))
    assert (found["headline"], len(found["reasons"]), found["more"]) == ("20 wrong", 8, 12)


# -- the data --------------------------------------------------------------------------------------------------------


def test_a_card_refers_to_names_that_are_stored_once():
    cards = [card(parts=[part(service="train", task="train.1", owner="alice", since="2026-11-20T12:00:00Z")]), card(uuid="GPU-2")]
    data = made(cards=cards)
    assert data["cards"] == [
        [0, CARD, 1, 81559, 2, "", [[3, "", 2, ".1", 4, 5, 1795176000]]],
        [0, "GPU-2", 1, 81559, 2, "", [[3, CARD, 2, "", -1, -1, None]]],
    ]
    assert data["names"] == ["id-g1", "NVIDIA-H100", "allocated", "NVIDIA-GPU", "train", "alice"]


def test_an_amount_is_a_number():
    (row,) = made(cards=[card(uuid=None, parts=[{"kind": "VRAM", "amount": 24}])])["cards"]
    assert (row[1], row[6][0][1]) == ("", 24)


def test_only_chosen_fields_are_copied():
    secret = "hunter2"
    more = {"env": secret, "command": secret, "labels": {"a": secret}, "variables": {"b": secret}}
    rows = {"nodes": [dict(node("g1"), **more)], "pending": [dict(PENDING, **more)], "on_gpu_nodes": [more], "holders": [more], "faulty": []}
    event = dict({"at": AT, "what": "fault", "text": "x"}, **more)
    usage, days = [dict({"name": "a"}, **more)], [dict({"day": "d"}, **more)]
    assert secret not in to_json(made(rows, [dict(card(parts=[dict(part(), **more)]), **more)], usage, days, [event]))


def test_the_chart_adds_up_small_owners():
    days = [{"day": f"2026-11-{day}", "name": f"o{owner}", "cards": float(owner)} for day in (20, 19) for owner in range(12)]
    days += [{"day": "2026-11-20", "name": "o11", "cards": None}, {"day": "2026-11-13", "name": "o1", "cards": 99.0}]
    assert made(days=days)["days"] == {
        "days": [f"2026-11-{day}" for day in range(14, 21)],
        "owners": ["o11", "o10", "o9", "o8", "o7", "o6", "o5", "o4", "others"],
        "hours": [[0, 0, 0, 0, 0, hours, hours] for hours in (11, 10, 9, 8, 7, 6, 5, 4, 6)],
    }


def test_what_is_not_recorded_is_no_empty_list():
    data = page_data(status(), [], None, None, None, AT, "m1")
    assert (data["usage"], data["days"], data["events"], data["events_total"]) == (None, None, None, 0)


@pytest.mark.parametrize(("interval", "stale", "live"), [(None, 900, False), (10, 180, True), (60, 180, True), (600, 1800, True)])
def test_when_a_page_is_stale(interval, stale, live):
    data = made(interval=interval)
    assert (data["stale_after"], data["live"]) == (stale, live)


def test_long_lists_and_texts_have_a_limit():
    rows = status(*[node("g" * 5000, why="w" * 5000)] * 3000, pending=[dict(PENDING, service="s" * 5000)] * 10_000)
    event = {"at": AT, "what": "fault", "text": "t" * 5000}
    usage = [{"name": f"o{number}"} for number in range(10_000)]
    data = made(rows, [card(parts=[part()] * 100)] * 1000, usage, events=[event] * 9000)
    assert [len(data[name]) for name in ("nodes", "pending", "usage", "events")] == [2000, 200, 200, 500]
    assert (data["nodes_total"], data["pending_total"], data["events_total"]) == (3000, 10_000, 9000)
    assert sum(len(row[6]) for row in data["cards"]) == 40_000
    assert {len(row["why"]) for row in data["nodes"]} == {600}
    assert {len(row["service"]) for row in data["pending"]} == {120}


FIELDS = (
    "age", "amount", "at", "card", "cards", "day", "estimated", "for", "hostname", "hours", "id", "kind", "mib",
    "model", "name", "nearest", "needed", "node", "node_id", "owner", "parts", "reason", "service", "since", "state",
    "task", "text", "value", "verdict", "what", "why",
)  # fmt: skip
QUEUE_FIELDS = ("queue", "weight", "share", "used", "max", "states", "since", "position", "ends", "state", "reason")
ODD = [None, True, float("nan"), float("inf"), -5, 10**400, 1e300, "", "x", [], {}, [[]], [None], {"a": 1}]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:12])
def test_odd_values_make_a_page(odd):
    row = dict.fromkeys(FIELDS, odd)
    work = [row, dict(row, queue=odd), dict(row, state="waiting", reason=odd)]
    queue = {"queues": [row, dict.fromkeys(QUEUE_FIELDS, odd)], "work": work, "problem": odd}
    data = made(status(row, pending=[row], faulty=[row], queue=queue), [row, dict(row, parts=[row])], [row], [row], [row])
    json.loads(to_json(data))
    assert shown(data).found


# -- queues ----------------------------------------------------------------------------------------------------------

WORK = {"service": "a", "queue": "research", "state": "waiting", "owner": "alice", "position": 1, "text": "no room", "reason": "no-room", "since": AT}


def of_queues(*work, **row):
    queue = {"queue": "research", "share": 0.5, "weight": 2, "used": {"NVIDIA-GPU": 3}, "max": {"NVIDIA-GPU": 4}, "states": {"waiting": len(work)}}
    return made(status(queue={"problem": "", "queues": [{**queue, **row}], "work": list(work)}))


def test_a_swarm_without_queues_has_no_block_of_them():
    assert made()["queues"] is None


def test_queues_show_what_runs_and_what_waits():
    running = {**WORK, "service": "r", "state": "running", "position": None, "node": "g1", "ends": "2026-11-20T15:00:00Z", "text": ""}
    data = of_queues(WORK, running, {**WORK, "service": "o", "state": "over"}, states={"waiting": 1, "running": 1, "over": 9}, since=AT - 60)
    (queue,) = data["queues"]["rows"]
    assert (queue["used"], queue["since"]) == ([["NVIDIA-GPU", 3, 4]], AT - 60)
    assert queue["counts"] == {"running": 1, "starting": 0, "lost": 0, "waiting": 1, "refused": 0, "held": 0}
    names = [data["names"][number] for number in (queue["waits"][0][1], queue["waits"][0][2], queue["waits"][0][7])]
    assert (queue["waits"][0][0], names, queue["waits"][0][5], queue["waits"][0][8]) == ("a", ["waiting", "alice", "no room"], AT, "green")
    assert [(row[0], data["names"][row[4]], row[6]) for row in queue["others"]] == [("r", "g1", 1795186800)]


def test_work_that_needs_a_person_has_a_colour():
    levels = {"held": ("held", ""), "lost": ("lost", ""), "refused": ("refused", "cannot-be-queued"), "never": ("waiting", "fits-nowhere")}
    data = of_queues(*({**WORK, "service": name, "state": state, "reason": reason} for name, (state, reason) in levels.items()))
    (queue,) = data["queues"]["rows"]
    rows = {row[0]: row[8] for row in [*queue["waits"], *queue["others"]]}
    assert rows == {"held": "amber", "lost": "amber", "refused": "red", "never": "red"}


def test_10000_waiting_pieces_of_work_do_not_make_the_page_larger():
    sizes = []
    for number in (100, 10_000):
        work = [{**WORK, "service": f"sweep-{one:05}", "text": "x" * 500} for one in range(number)]
        sizes.append(len(page(page_template(), of_queues(*work))))
    assert sizes[1] - sizes[0] < 100
    assert sizes[0] - len(page(page_template(), made())) < 10_000


def test_work_of_a_queue_that_the_status_does_not_list_is_ignored_without_a_row_for_it():
    assert of_queues({**WORK, "queue": "other"})["queues"]["rows"][0]["waits"] == []
    data = made(status(queue={"queues": [{"queue": ""}], "work": [{**WORK, "queue": "typo"}]}))
    assert [row[0] for row in data["queues"]["rows"][0]["waits"]] == ["a"]


# -- the file --------------------------------------------------------------------------------------------------------


def hostile_page():
    work = {**dict.fromkeys(WORK, HOSTILE), "state": "waiting"}
    queue = {"queues": [{"queue": HOSTILE, "used": {HOSTILE: 1}, "max": {HOSTILE: 2}, "states": {}}], "work": [work], "problem": HOSTILE}
    pending = [dict(PENDING, service=HOSTILE, text=HOSTILE, nearest=[{"text": HOSTILE}])]
    rows = status(node(HOSTILE, "failed", HOSTILE, HOSTILE), pending=pending, queue=queue)
    cards = [card(reason=HOSTILE, parts=[part(service=HOSTILE, task=HOSTILE, owner=HOSTILE)])]
    event = {"at": AT, "what": HOSTILE, "hostname": HOSTILE, "text": HOSTILE}
    days = [{"day": HOSTILE, "name": HOSTILE, "cards": 1.0}]
    return page(page_template(), page_data(rows, cards, [{"name": HOSTILE}], days, [event], AT, HOSTILE, f"javascript:{HOSTILE}"))


def test_hostile_texts_add_no_element():
    tags = [tag for tag, _attributes in Elements(hostile_page()).found]
    assert tags.count("script") == 2
    assert "img" not in tags


def test_hostile_texts_are_printable_and_in_no_script():
    text = hostile_page()
    text.encode()
    assert [character for character in text if not character.isprintable() and character != "\n"] == []
    data = json.loads(Elements(text).texts["data"])
    assert data["grafana"] == ""
    assert data["pending"][0]["service"].startswith("</script><img src=x onerror=alert(1)>\\x1b[31m\\u202e")


def test_the_policy_allows_only_the_style_and_the_script_of_the_file():
    text = page(page_template(), made())
    (policy,) = [attributes["content"] for tag, attributes in Elements(text).found if attributes.get("http-equiv") == "Content-Security-Policy"]
    for tag in ("style", "script"):
        ((body),) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert f"{tag}-src 'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_the_file_loads_nothing():
    """The only address in an attribute is an empty icon, which keeps browsers from asking for one."""
    found = Elements(page(page_template(), made(status(node("g1")), [card()]))).found
    addresses = [value for _tag, attributes in found for name, value in attributes.items() if name in ("src", "href", "action", "srcset", "data")]
    assert addresses == ["data:,", "#fleet"]
    styles = "".join((FOLDER / name).read_text() for name in STYLES)
    assert re.findall(r"@import|url\(", styles) == []


def test_without_javascript_the_page_has_the_verdict_and_a_line_for_each_node():
    data = made(status(PAUSED, node("g2")), [card("g1"), card("g1", state="free"), card("g2", uuid=None)])
    (lines,) = re.findall("<noscript>(.*?)</noscript>", page(page_template(), data), re.DOTALL)
    rows = re.findall('<li class="(.*?)"><b>(.*?)</b> (.*?)</li>', lines)
    why = f"paused for a fault: {CARD} XID 79 (PCI address 00000000:C1:00.0, slot 12); it returns to active with the first run; 1 of 2 GPUs allocated"
    assert rows == [("red", "g1", why), ("green", "g2", "ready")]
    assert shown(data).texts["headline"].strip() == "1 wrong"


@pytest.mark.parametrize("place", PLACES)
def test_a_template_without_a_place_is_refused(place):
    with pytest.raises(GpuSwarmError, match=f"no place for {place}"):
        page(page_template().replace(f"@@{place}@@", ""), made())


def test_a_thousand_nodes_make_less_than_3_mb():
    nodes = [node(f"gpu-{number:04}.example.com") for number in range(1000)]
    task = part(service="llama-pretraining", owner="alice@example.com", since=AT)
    cards = []
    for number in range(8000):
        uuid = f"GPU-{number:08x}-89ab-cdef-0123-456789abcdef"
        cards.append(card(nodes[number // 8]["node"], uuid=uuid, parts=[dict(task, value=uuid, task=f"llama-pretraining.{number}")]))
    assert len(page(page_template(), made(status(*nodes), cards)).encode()) < 3_000_000


def test_the_files_of_the_page_contain_no_tag_that_ends_their_element():
    assert [name for name in SCRIPTS if "</script" in (FOLDER / name).read_text().lower()] == []
    assert [name for name in STYLES if "</style" in (FOLDER / name).read_text().lower()] == []
