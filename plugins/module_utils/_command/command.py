# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command gpu-swarm for people who are logged in on a manager. It shows the fleet, and submits and changes the work of queues.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from .._errors import GpuSwarmError
from .._printable import printable, printable_lines
from .._record.schema import BY
from .._view import owners_now
from .._view.fold import paragraphs
from .._view.record_text import csv_of, text_of
from .._view.status import only_service, outcome, service_row
from .._view.status_text import SECTIONS, Paint, Screen, plain
from . import recorded, screen, top
from .command_answer import DONE, INTERRUPTED, UNREADABLE, WAITING, WRONG, Answer, Places, connect
from .written_files import SNAPSHOT, age_notes, read_cards, read_snapshot

if TYPE_CHECKING:
    from .._swarm.manager import Manager

NAME = "gpu-swarm"
REDRAW_S = 1.0
PIPE_COLUMNS = 160  # top in a pipe
_JSON = "print one line of JSON"
_DESCRIPTION = """\
Show the GPUs of this swarm: who has them, what waits, and what happened.
Submit work to its queues, and look after this work.
Only run, cancel, retry and release change anything: the work of queues."""
_EXAMPLES = """\
examples:
  gpu-swarm status                     nodes, GPUs and what is pending
  gpu-swarm top                        the cards, drawn again each second
  gpu-swarm why train                  why is it pending? what would make room?
  gpu-swarm who                        how many cards each owner has
  gpu-swarm who gpu-node-1             also of an owner, or of a card
  gpu-swarm usage --since 7d --by owner
  gpu-swarm events --since 12h --node gpu-node-1
  gpu-swarm card GPU-5fa2e7a4          the history of a card
  gpu-swarm run --queue research --gpus 2 my/training python train.py
  gpu-swarm queue                      what runs, what waits, and why
  gpu-swarm logs training-3f9a1c       what the work has written
  gpu-swarm cancel training-3f9a1c

'why' and the commands for queues ask Docker. Everything else comes from the
last reading of the service gpu-swarm-manager. Times are in UTC.

exit status:
  0   no problem
  75  a node or a service waits (status, why)
  2   something is wrong (status, why, queue), or an option is
  1   the data could not be read, nothing has this name, or work could
      not be changed
  run --follow ends with the exit status of the work"""
# Each command with its summary, and its examples with what they show.
_HELP: Mapping[str, Sequence[str]] = {
    "status": [
        "nodes, GPUs and what is pending",
        "gpu-swarm status",
        "gpu-swarm status free                also: holders, pending, faulty",
        "gpu-swarm status --json | jq .totals",
    ],
    "top": ["the cards, drawn again each second", "gpu-swarm top", "keys: %s" % top.KEYS],
    "why": [
        "why a service is pending, and what would make room for it",
        "gpu-swarm why train",
        "gpu-swarm why train --json | jq '.pending[0].text'",
    ],
    "who": [
        "who has which cards",
        "gpu-swarm who                        how many cards each owner has",
        "gpu-swarm who alice                  what alice has",
        "gpu-swarm who gpu-node-1             the cards of a node",
        "gpu-swarm who GPU-5fa2e7a4           a card",
    ],
    "usage": [
        "who used how many GPU-hours",
        "gpu-swarm usage --since 7d --by owner",
        "gpu-swarm usage --since 2026-11-01 --by node --csv > usage.csv",
    ],
    "events": [
        "what happened: faults, nodes, runs, policies",
        "gpu-swarm events --since 12h",
        "gpu-swarm events --since 2d --node gpu-node-1",
    ],
    "card": ["the history of a card", "gpu-swarm card GPU-5fa2e7a4          the beginning of a UUID is enough"],
    "queue": [
        "what runs and waits in the queues, and why",
        "gpu-swarm queue                      all queues",
        "gpu-swarm queue research             one queue",
        "gpu-swarm queue alice                the work of an owner",
        "gpu-swarm queue sweep                all services of a job",
        "gpu-swarm queue train                one piece of work, with all that is known",
        "gpu-swarm queue --json | jq '.work[] | select(.state == \"waiting\")'",
    ],
    "run": [
        "submit work to a queue",
        "gpu-swarm run --queue research --gpus 2 my/training python train.py",
        "gpu-swarm run --queue research --gpus 1 --follow --env HF_TOKEN \\",
        "      --mount type=bind,source=/data,target=/data,readonly my/eval",
    ],
    "cancel": ["cancel work of a queue", "gpu-swarm cancel train                stopped; its log stays", "gpu-swarm cancel train-1 train-2"],
    "logs": ["what work of a queue has written", "gpu-swarm logs train", "gpu-swarm logs train --follow"],
    "retry": ["run work again that ended or is lost", "gpu-swarm retry train"],
    "release": ["let held work run", "gpu-swarm release train"],
}


def main(argv: Sequence[str] | None = None, places: Places | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = _parser().parse_args(argv)
    places = places or _places(os.environ)
    try:
        if arguments.command == "top" and screen.is_interactive() and not arguments.json:
            return _run_top(places)
        if arguments.command in _STREAMING:
            return _STREAMING[arguments.command](arguments, places)
        return _print(_COMMANDS[arguments.command](arguments, places, time.time()), arguments)
    except GpuSwarmError as problem:
        return _fail(problem.message)
    except (LookupError, AttributeError, TypeError, ValueError, OverflowError) as problem:  # a file of another release, until it is written again
        return _fail("the data has an unknown form: %r. If the collection was just updated, wait a minute. Otherwise report this." % problem)
    except OSError as problem:  # such as in: gpu-swarm events | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE if isinstance(problem, BrokenPipeError) else _fail("the output could not be written: %s" % problem.strerror)
    except KeyboardInterrupt:
        return INTERRUPTED


def _fail(message: str) -> int:
    sys.stderr.write("%s: %s\n" % (NAME, printable_lines(message)))
    return UNREADABLE


def _places(environ: Mapping[str, str]) -> Places:
    """Return the default places. DOCKER_HOST may name another socket of this machine."""
    host = environ.get("DOCKER_HOST") or ""
    return Places(docker_host=host) if host.startswith("unix://") else Places()


def _print(answer: Answer, arguments: argparse.Namespace) -> int:
    if arguments.json:
        text = json.dumps(answer.data)  # only ASCII, so nothing in a name can move the cursor
    elif getattr(arguments, "csv", False):
        text = csv_of(answer.data)
    else:
        text = answer.text(_width())
    # A terminal may have another encoding than UTF-8.
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")
    sys.stdout.flush()
    return answer.status


def _width() -> int | None:
    """Return the width of the terminal, or None if the output goes to a pipe. Without a width, each row is one line."""
    return screen.size()[0] if sys.stdout.isatty() or os.environ.get("COLUMNS") else None


def _paint() -> Paint:
    return screen.paint if screen.has_colours() else plain


# -- options ---------------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, **_form(_DESCRIPTION, _EXAMPLES))
    parser.add_argument("--json", action="store_true", help=_JSON)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    parsers = {}
    for name, (summary, *examples) in _HELP.items():
        form = _form(summary[0].upper() + summary[1:] + ".", "\n  ".join(["examples:", *examples]))
        parsers[name] = commands.add_parser(name, help=summary, **form)
        parsers[name].add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=_JSON)  # keeps a --json before the command
    section = "%s (default: %s)" % (", ".join(SECTIONS), SECTIONS[0])
    parsers["status"].add_argument("section", nargs="?", choices=SECTIONS, default=SECTIONS[0], metavar="SECTION", help=section)
    parsers["why"].add_argument("service", metavar="SERVICE", help="the name or id of a service")
    parsers["who"].add_argument("name", nargs="?", metavar="GPU|NODE|OWNER", help="without it: how many cards each owner has")
    _add_since(parsers["usage"], recorded.USAGE_SINCE)
    parsers["usage"].add_argument("--by", choices=BY, default=BY[0], help="%s (default: %s)" % (", ".join(BY), BY[0]), metavar="WHAT")
    parsers["usage"].add_argument("--csv", action="store_true", help="print CSV with a header")
    _add_since(parsers["events"], recorded.EVENTS_SINCE)
    parsers["events"].add_argument("--node", metavar="NODE", help="only events of this node, by hostname or id")
    parsers["queue"].add_argument("name", nargs="?", metavar="QUEUE|OWNER|JOB|NAME", help="only a queue, an owner, a job, or one service")
    _add_run_options(parsers["run"])
    parsers["cancel"].add_argument("names", nargs="+", metavar="NAME", help="the name or id of a service, or the name of a job")
    parsers["logs"].add_argument("--follow", action="store_true", help="also wait for its start, and for what it writes until its end")
    for name in ("logs", "retry", "release"):
        parsers[name].add_argument("name", metavar="NAME", help="the name or id of a service")
    parsers["card"].add_argument("uuid", metavar="UUID", help="the UUID of a GPU or MIG device, or its beginning")
    return parser


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%s run --queue QUEUE --gpus N [options] IMAGE [WORD ...]" % NAME
    parser.add_argument("--queue", required=True, metavar="QUEUE", help="'gpu-swarm queue' lists the queues")
    parser.add_argument("--gpus", required=True, type=int, metavar="N", help="how many GPUs to reserve")
    parser.add_argument("--kind", default="NVIDIA-GPU", help="the resource kind of these GPUs (default: NVIDIA-GPU)")
    parser.add_argument("--name", help="the name of its service (default: from the image)")
    parser.add_argument("--owner", help="who counts as its owner (default: you)")
    parser.add_argument("--priority", type=int, metavar="N", help="-1000 to 1000 (default: that of the queue)")
    parser.add_argument("--time-limit", metavar="TIME", help="such as 30m, 8h or 2d (default: that of the queue)")
    parser.add_argument("-e", "--env", action="append", default=[], metavar="NAME[=VALUE]", help="a variable; without a value, that of this shell")
    parser.add_argument("--mount", action="append", default=[], metavar="MOUNT", help="such as type=bind,source=/data,target=/data,readonly")
    parser.add_argument("--network", action="append", default=[], metavar="NETWORK", help="an overlay network, or host")
    parser.add_argument("--constraint", action="append", default=[], metavar="TEXT", help="such as node.labels.gpu.model==Tesla-T4")
    parser.add_argument("--device", action="append", default=[], metavar="NAME", help="devices that the nodes offer under this name")
    parser.add_argument("--workdir", help="the directory in which it runs")
    parser.add_argument("--user", help="the user who runs it in the container")
    parser.add_argument("--follow", action="store_true", help="show its log, and end with its exit status")
    parser.add_argument("image", metavar="IMAGE")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="WORD", help="the command and its arguments")


def _add_since(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--since", default=default, metavar="TIME", help="such as 30m, 12h, 7d, 4w or 2026-11-20 (default: %s)" % default)


def _form(description: str, examples: str) -> dict[str, Any]:
    """Return the options of a parser that prints its examples as they are and refuses abbreviations, which a new option could break."""
    return {"description": description, "epilog": examples, "formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}


# -- commands --------------------------------------------------------------------------------------------------------


def _status(arguments: argparse.Namespace, places: Places, now: float) -> Answer:
    snapshot = read_snapshot(places.record)
    status, section = snapshot.status, arguments.section
    data = status if section == "all" else {key: status[key] for key in (section, "waiting", "wrong")}
    notes = [outcome(status), *age_notes(snapshot, now)]

    def text(width: int | None) -> str:
        return "%s\n\n%s" % (Screen(width, _paint()).show(status, section), paragraphs(map(printable, notes), width))

    return Answer({**snapshot.source(), **data}, text, _exit_status(status))


def _exit_status(status: Mapping[str, Any]) -> int:
    return WRONG if status["wrong"] else WAITING if status["waiting"] else DONE


def _why(arguments: argparse.Namespace, places: Places, dummy_now: float) -> Answer:
    # imported here, because only few commands need the API
    from .._queue.read_queue import read_ledger_and_queue
    from .._swarm.owned_labels import PREFIX

    row = service_row(read_ledger_and_queue(connect(places), PREFIX, [arguments.service]), arguments.service)
    if row is None:
        raise GpuSwarmError(
            "The swarm has no service %s. A service of a stack is named STACK_SERVICE. 'docker service ls' lists all names."
            % printable(arguments.service)
        )
    status = only_service(row)
    return Answer(status, lambda width: Screen(width, _paint()).service(row), _exit_status(status))


def _who(arguments: argparse.Namespace, places: Places, now: float) -> Answer:
    snapshot = read_snapshot(places.record)
    if arguments.name is None:
        rows, show = owners_now.by_owner(snapshot.cards), owners_now.owners_text
    else:
        rows, show = owners_now.matching(snapshot.cards, arguments.name, now), owners_now.parts_text
        if not rows:
            raise GpuSwarmError("No card, node or owner is named %s. Owners without a task have nothing." % printable(arguments.name))
    notes = list(map(printable, age_notes(snapshot, now)))
    return Answer({**snapshot.source(), "rows": rows}, lambda width: "%s\n\n%s" % (show(rows, width), paragraphs(notes, width)))


def _top(dummy_arguments: argparse.Namespace, places: Places, now: float) -> Answer:
    """Return one picture with all cards for a pipe, and the data for --json."""
    snapshot, activity = read_snapshot(places.record), read_cards(places.cards, now)
    data = {**snapshot.source(), "cards": [dict(card, now=activity.get(str(card["card"]))) for card in snapshot.cards]}

    def text(width: int | None) -> str:
        picture = top.frame(snapshot, activity, top.State(), (width or PIPE_COLUMNS, len(snapshot.cards) + top.OTHER_LINES), now)
        return "\n".join(line.rstrip() for line, _colour in picture.lines[:-1])

    return Answer(data, text)


def _usage(arguments: argparse.Namespace, places: Places, now: float) -> Answer:
    answer = recorded.usage(places.record, arguments.since, arguments.by, now)
    return Answer(answer, lambda width: text_of(answer, width))


def _events(arguments: argparse.Namespace, places: Places, now: float) -> Answer:
    answer = recorded.events(places.record, arguments.since, arguments.node, now)
    return Answer(answer, lambda width: text_of(answer, width))


def _card(arguments: argparse.Namespace, places: Places, now: float) -> Answer:
    readings = read_cards(places.cards, now)
    answer = recorded.card(places.record, arguments.uuid, now, readings)
    reading = readings.get(answer["uuid"])
    return Answer(dict(answer, activity=reading), lambda width: text_of(dict(answer, activity=reading), width))


def _queue(arguments: argparse.Namespace, places: Places, dummy_now: float) -> Answer:
    from . import queued_work

    return queued_work.show(connect(places), arguments.name)


def _cancel(arguments: argparse.Namespace, places: Places, dummy_now: float) -> Answer:
    from . import queued_work

    return queued_work.cancel(connect(places), arguments.names)


def _retry(arguments: argparse.Namespace, places: Places, dummy_now: float) -> Answer:
    from . import queued_work

    return queued_work.retry(connect(places), arguments.name)


def _release(arguments: argparse.Namespace, places: Places, dummy_now: float) -> Answer:
    from . import queued_work

    return queued_work.release(connect(places), arguments.name)


def _run(arguments: argparse.Namespace, places: Places) -> int:
    from . import run_work

    if arguments.follow and arguments.json:
        raise GpuSwarmError("--follow shows the log, so it cannot print JSON. Omit --follow or --json. Nothing was submitted.")
    manager = connect(places)
    answer = run_work.submit(manager, arguments, os.environ)
    status = _print(answer, arguments) if not arguments.follow else DONE
    return _follow(manager, answer.data["service"], answer.data["service_id"]) if arguments.follow else status


def _logs(arguments: argparse.Namespace, places: Places) -> int:
    from . import queued_work, task_log

    if arguments.json:
        raise GpuSwarmError("A log is not JSON. Omit --json.")
    manager = connect(places)
    service = queued_work.find(manager, arguments.name)
    if not arguments.follow:
        return task_log.show(manager, service)
    return _follow(manager, printable(service["Spec"]["Name"]), service["ID"])


def _follow(manager: Manager, name: str, service_id: str) -> int:
    from . import task_log

    try:
        return task_log.follow(manager, service_id)
    except KeyboardInterrupt:
        words = "\n{0}: The work goes on. '{0} queue {1}' shows it, '{0} logs {1} --follow' its log, and '{0} cancel {1}' cancels it.\n"
        sys.stderr.write(words.format(NAME, name))
        return INTERRUPTED


# Commands that print their output themselves, because they may show the log of a running task.
_STREAMING: Mapping[str, Callable[[argparse.Namespace, Places], int]] = {"run": _run, "logs": _logs}
_COMMANDS: Mapping[str, Callable[[argparse.Namespace, Places, float], Answer]] = {
    "status": _status,
    "top": _top,
    "why": _why,
    "who": _who,
    "usage": _usage,
    "events": _events,
    "card": _card,
    "queue": _queue,
    "cancel": _cancel,
    "retry": _retry,
    "release": _release,
}


def _run_top(places: Places) -> int:
    """Draw until the user quits. The snapshot is read again only if its file has changed."""
    state, path = top.State(), os.path.join(places.record, SNAPSHOT)
    snapshot, read_at = read_snapshot(places.record), _written_at(path)
    with screen.whole_screen():
        while not state.done:
            now, size = time.time(), screen.size()
            if _written_at(path) != read_at:
                snapshot, read_at = read_snapshot(places.record), _written_at(path)
            picture = top.frame(snapshot, read_cards(places.cards, now), state, size, now)
            screen.draw(picture.lines)
            state = picture.state
            for key in screen.keys(REDRAW_S):
                state = top.press(state, key, top.page_of(size[1]))
    return DONE


def _written_at(path: str) -> object:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino
