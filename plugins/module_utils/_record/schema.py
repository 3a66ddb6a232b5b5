# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of the record: the allocations, events and daily sums of a swarm, in one SQLite file on each manager.

All times are whole seconds since 1970 by the manager's clock. Days are days of UTC.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import NamedTuple

FILE = "fleet.db"
# "gpus" in ASCII. A file with another number belongs to another program.
APPLICATION = 0x67707573
VERSION = 1
DAY_S = 86400

# What usage is counted by: the option of the commands -> the column of the table allocations.
OWNER, SERVICE, MODEL, NODE = BY = ("owner", "service", "model", "node")

# Names of single values in the table meta.
RECORDED_SINCE = "recorded_since"  # the first reading
LAST_READING = "last_reading"
ROWS_SINCE = "rows_since"  # allocations that ended before this time may be deleted; the daily sums have them
SUMMED_UNTIL = "summed_until"  # the table days has all days before this time
INTERVAL = "interval"  # seconds between the last two readings without a gap between them
CLOCK_SET = "clock_set"  # the last reading whose time was more than a day away from the reading before
BEFORE_SET = "before_set"  # the last reading before the clock was set forward by more than a day
BEHIND_SINCE = "behind_since"  # what the clock said when it was first behind the last reading
SWARM = "swarm"  # the id of the swarm
STATE = "state"  # what the next reading is compared with to find events, as JSON

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE nodes (id TEXT PRIMARY KEY, hostname TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE allocations (
  id INTEGER PRIMARY KEY,
  task TEXT NOT NULL,
  service TEXT NOT NULL,
  owner TEXT NOT NULL,          -- as the service named its owner when the task was first seen; '' without an owner
  node TEXT NOT NULL,
  kind TEXT NOT NULL,
  value TEXT,                   -- NULL for an amount
  amount INTEGER NOT NULL,      -- 1 for a value
  unit TEXT NOT NULL,           -- what the amount counts
  mib INTEGER,
  model TEXT NOT NULL,
  cards REAL,                   -- the part of a card, or the number of cards; NULL if unknown
  begin INTEGER NOT NULL,
  sure_from INTEGER NOT NULL,   -- certainly allocated between these two times
  sure_until INTEGER,
  end INTEGER,                  -- NULL while allocated
  how TEXT                      -- how it ended
);
CREATE INDEX open_allocations ON allocations (task) WHERE end IS NULL;
CREATE INDEX allocations_by_end ON allocations (end);

CREATE TABLE cards (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, model TEXT NOT NULL, mib INTEGER);

CREATE TABLE cards_of_allocations (
  card INTEGER NOT NULL, allocation INTEGER NOT NULL, PRIMARY KEY (card, allocation)
) WITHOUT ROWID;
CREATE INDEX allocations_of_cards ON cards_of_allocations (allocation);

CREATE TABLE ended_tasks (task TEXT PRIMARY KEY) WITHOUT ROWID;  -- listed by the manager at the last reading

CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,          -- when it was read
  since INTEGER NOT NULL,       -- when it happened
  what TEXT NOT NULL,
  node TEXT NOT NULL,           -- '' for events of the whole swarm
  hostname TEXT NOT NULL,
  card TEXT NOT NULL,           -- '' for events of no card
  cause TEXT NOT NULL,
  text TEXT NOT NULL,
  UNIQUE (node, what, card, cause, since)
);
CREATE INDEX events_by_since ON events (since);

CREATE TABLE days (
  day TEXT NOT NULL, by TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, unit TEXT NOT NULL,
  hours REAL NOT NULL, cards REAL, estimated REAL NOT NULL,
  PRIMARY KEY (day, by, name, kind, unit)
) WITHOUT ROWID;
"""


class Allocation(NamedTuple):
    """A row of the table allocations, without its id."""

    task: str
    service: str
    owner: str
    node: str
    kind: str
    value: str | None
    amount: int
    unit: str
    mib: int | None
    model: str
    cards: float | None
    begin: int
    sure_from: int
    sure_until: int | None = None
    end: int | None = None
    how: str | None = None


class Event(NamedTuple):
    """A row of the table events, without its id."""

    at: int
    since: int
    what: str
    node: str
    hostname: str
    card: str
    cause: str
    text: str
