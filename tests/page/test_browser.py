# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of the fleet in Chromium: what people see, and what they can do with a mouse, a keyboard and a screen reader."""

from __future__ import annotations

import re

import pytest

from .conftest import Opened
from .fleets import HOSTILE, busy, calm, hostile, large, unrecorded

SHOWN_HOSTILE = HOSTILE.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
FLEETS = {"busy": busy, "calm": calm, "hostile": hostile, "unrecorded": unrecorded}


def is_clean(opened: Opened) -> bool:
    """Return whether the page had no error, asked no host for anything, and fits the screen."""
    assert opened.errors == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:"))] == []
    return not opened.is_too_wide()


@pytest.mark.parametrize("name", FLEETS)
@pytest.mark.parametrize(("size", "theme"), [("desk", "light"), ("desk", "dark"), ("phone", "light"), ("wall", "dark")])
def test_the_page_fits_the_screen_and_loads_nothing(open_file, name, size, theme):
    opened = open_file(FLEETS[name](), size=size, theme=theme)
    opened.page.locator(".node").last.wait_for()
    opened.picture(f"{name}-{size}-{theme}")
    assert is_clean(opened)


def test_the_page_shows_the_whole_fleet(open_file):
    page = open_file(busy()).page
    assert page.title() == "✕ 2 wrong, 2 waiting – GPU fleet"
    assert page.locator("#headline").inner_text() == "2 wrong, 2 waiting"
    assert page.locator(".reason").first.inner_text().startswith("gpu-06")
    assert re.fullmatch(r"Read 1\d s ago on m1", page.locator("#read").inner_text())
    assert page.locator(".node").count() == 9
    assert page.locator(".tile.faulty .reason").inner_text() == "XID 79"
    assert page.locator(".tile.amount .head").inner_text() == "VRAM 40 of 80"
    assert page.locator("#pending-list li").first.inner_text().startswith("sweep")
    assert page.locator(".owners tbody tr").count() == 6
    assert page.locator("#chart canvas").count() == 1
    assert page.locator(".events li").count() == 8


def test_without_a_record_the_page_says_so(open_file):
    page = open_file(unrecorded()).page
    texts = [page.locator(f"#{name}").inner_text() for name in ("owners-list", "chart", "events-list")]
    assert all("not recorded" in text for text in texts)


def test_hostile_names_are_text(open_file):
    opened = open_file(hostile())
    page = opened.page
    assert page.locator("img").count() == 0
    assert page.title() == "✕ 2 wrong, 2 waiting – GPU fleet"
    assert page.locator(".node .name b").first.inner_text() == f"{SHOWN_HOSTILE}gpu-01"
    assert page.locator(".tile b").first.inner_text() == SHOWN_HOSTILE
    page.locator(".tile").first.click()
    assert SHOWN_HOSTILE in page.locator("#details").inner_text()
    assert is_clean(opened)


def test_an_old_page_is_struck_through(open_file):
    opened = open_file(calm(), age=3 * 3600, size="wall")
    page = opened.page
    assert page.locator("#read").inner_text() == "Stale: read 3 h ago on m1"
    assert page.evaluate("getComputedStyle(document.querySelector('#headline')).textDecorationLine") == "line-through"
    assert page.locator("footer .struck").count() == 1
    opened.picture("stale", full=False)


def test_a_page_becomes_stale_while_it_is_open(open_file):
    page = open_file(calm()).page
    assert not page.locator("body.stale").count()
    page.clock.run_for(200_000)
    page.locator("body.stale").wait_for()


def test_the_tab_has_the_colour_of_the_verdict(open_file):
    page = open_file(busy()).page
    assert "%23bf1219" in page.locator("link[rel=icon]").get_attribute("href")
    page.clock.run_for(200_000)
    assert "%236b7280" in page.locator("link[rel=icon]").get_attribute("href")


def test_newer_data_does_not_scroll_the_page(open_file):
    page = open_file(large()).page
    page.locator(".node").nth(999).wait_for(state="attached")
    page.evaluate("scrollTo(0, 5000)")
    page.evaluate("drawAll()")
    page.locator(".node").nth(999).wait_for(state="attached")
    assert page.evaluate("scrollY") == 5000
    page.locator(".tile").first.focus()
    page.evaluate("drawAll()")
    page.locator(".node").nth(999).wait_for(state="attached")
    assert page.locator(".tile").first.evaluate("tile => tile === document.activeElement")


def test_without_javascript_there_are_the_verdict_and_the_nodes(open_file):
    opened = open_file(busy(), java_script_enabled=False)
    page = opened.page
    assert page.locator("h1").inner_text() == "2 wrong, 2 waiting"
    lines = page.locator(".plain li").all_inner_texts()
    assert len(lines) == 9
    assert lines[1].startswith("gpu-01 ready; ")
    assert not page.locator("#app").is_visible()
    opened.picture("without-javascript")


# -- search, filters, keys -------------------------------------------------------------------------------------------


def visible(page, selector=".node"):
    return page.locator(f"{selector}:visible").count()


def test_search_filters_and_sorting_stay_in_the_address(open_file):
    page = open_file(busy()).page
    page.fill("#search", "notebook")
    found = visible(page)
    assert 0 < found < 9
    assert page.locator("#found").inner_text().endswith(f"on {found} nodes" if found > 1 else "on 1 node")
    assert page.url.endswith("#search=notebook")
    page.click("#clear")
    assert visible(page) == 9
    page.select_option("#state", "faulty")
    assert visible(page) == 1
    page.select_option("#state", "")
    page.select_option("#sort", "problems")
    assert page.locator(".node b").first.inner_text() == "gpu-06"
    page.reload()
    assert page.locator("#sort").input_value() == "problems"
    page.fill("#search", "no such thing")
    assert (visible(page), page.locator("#found").inner_text()) == (0, "Nothing matches.")


@pytest.mark.parametrize(("name", "value"), [("model", "NVIDIA-L40S"), ("owner", "bob"), ("node", "gpu-05")])
def test_a_filter_by_model_owner_or_node(open_file, name, value):
    page = open_file(busy()).page
    page.select_option(f"#{name}", value)
    assert 0 < visible(page) < 9
    assert visible(page, ".tile:not(.dim)") < page.locator(".tile").count()


def test_a_colour_of_the_legend_filters(open_file):
    page = open_file(busy()).page
    page.locator("#legend button", has_text="bob").click()
    assert page.locator("#owner").input_value() == "bob"
    assert page.locator("#legend button[aria-pressed=true]").inner_text() == "bob"
    page.locator("#legend button", has_text="bob").click()
    assert visible(page) == 9


def test_the_page_works_with_a_keyboard(open_file):
    page = open_file(busy()).page
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.locator(".tile").first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    row = page.locator(".node:focus-within")
    assert row.locator("b").first.inner_text() == "gpu-02"
    assert row.locator(".tile").nth(1).evaluate("tile => tile === document.activeElement")
    assert page.locator(".tile[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    page.locator("#details[open]").wait_for()
    assert page.locator("#details-title").inner_text().startswith("gpu-02")
    page.keyboard.press("Escape")
    assert not page.locator("#details[open]").count()
    assert row.locator(".tile").nth(1).evaluate("tile => tile === document.activeElement")


def test_a_screen_reader_gets_names(open_file):
    page = open_file(busy()).page
    labels = page.locator(".tile").evaluate_all("tiles => tiles.map((tile) => tile.getAttribute('aria-label'))")
    assert all(re.match(r"gpu-\d\d, ", label) for label in labels)
    assert sum("XID 79" in label for label in labels) == 1
    unnamed = "controls => controls.filter((one) => !one.labels?.length && !one.textContent.trim() && !one.getAttribute('aria-label')).length"
    assert page.locator("button, select, input").evaluate_all(unnamed) == 0
    assert page.locator("h1").count() == 1


CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((part) => {
    const value = part / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  const light = (text) => { const [r, g, b] = rgb(text); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const style = getComputedStyle(document.documentElement);
  const probe = document.body.appendChild(document.createElement('span'));
  const colour = (name) => { probe.style.color = style.getPropertyValue(name); return getComputedStyle(probe).color; };
  const names = ['k-other', 'k-state', ...[...Array(12).keys()].map((number) => `k${number}`)];
  const fills = names.map((name) => [name, ratio('rgb(255, 255, 255)', colour(`--${name}`))]);
  const texts = ['ink', 'muted', 'red', 'amber', 'green'].map((name) => [name, ratio(colour(`--${name}`), colour('--surface'))]);
  return Object.fromEntries([...fills, ...texts]);
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_can_be_read_on_every_colour(open_file, theme):
    found = open_file(busy(), theme=theme).page.evaluate(CONTRAST)
    assert len(found) == 19
    assert {name: round(ratio, 2) for name, ratio in found.items() if ratio < 4.5} == {}


def test_the_tables_and_the_chart_agree(open_file):
    page = open_file(busy()).page
    assert page.locator(".readout b").inner_text().startswith("Sum ")
    page.locator(".as-table summary").click()
    assert page.locator(".as-table tbody tr").count() == 6
    box = page.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    assert page.locator(".readout b").inner_text().startswith("17 Tue ")


def test_queues_show_what_runs_and_what_waits(open_file):
    page = open_file(busy()).page
    assert page.locator(".queue h3").all_inner_texts() == ["nightly", "research", "no such queue"]
    assert page.locator(".queue .waits").nth(1).inner_text() == "13 running · 130 waiting for up to 9 h · share 18.2 % · weight 3"
    waits = page.locator(".queue").nth(1).get_by_role("list", name="Waiting")
    assert waits.locator("li").count() == 6
    assert "it is next, and gpu-01 is kept for it" in waits.locator("li").first.inner_text()
    assert page.locator(".queue").nth(1).get_by_text("and 30 more").count() == 0
    page.get_by_role("button", name="Show 94 more").click()
    assert waits.locator("li").count() == 100
    assert page.locator(".queue").nth(1).get_by_text("and 30 more").count() == 1


def test_a_swarm_without_queues_has_no_block_for_them(open_file):
    page = open_file(calm()).page
    assert not page.locator("#queues").is_visible()
    assert "queues" not in page.locator("#figures").inner_text()


def test_a_thousand_nodes(open_file):
    opened = open_file(large())
    page = opened.page
    page.locator(".node").nth(999).wait_for()
    assert page.locator(".tile").count() == 8000
    assert page.locator("#grid.dense").count() == 1
    opened.picture("large", full=False)
    page.evaluate("document.getElementById('fleet').scrollIntoView()")
    opened.picture("large-fleet", full=False)
    page.fill("#search", "gpu-0500")
    assert visible(page) == 1
    page.locator(".tile:visible").first.click()
    assert page.locator("#details-title").inner_text().startswith("gpu-0500")
    assert is_clean(opened)
