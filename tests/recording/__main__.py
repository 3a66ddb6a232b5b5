# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boots a lab fleet, records the story on it with asciinema, cuts the pauses, and draws it with svg-term."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from tests.lab import daemon, demo, inventory
from tests.lab.lab import CHECKOUT, Lab, LabError, output

from . import cast
from .story import FLEET

HERE = Path(__file__).resolve().parent
TOOLS = CHECKOUT / "build" / "recorder"
PICTURE = CHECKOUT / "docs" / "pictures" / "recording.svg"
COLUMNS, ROWS = 98, 28
WIDTH = 100  # of the picture: if letters are wider than svg-term assumes, full lines need this width
LARGEST, LONGEST = 300_000, 40  # bytes and seconds
LABEL = (
    "A terminal: provision makes three machines a swarm, a service gets six GPUs, a card of node g1 fails, "
    "and status shows that g1 is paused while its tasks go on"
)


def main() -> int:
    lab = Lab.from_environment()
    try:
        daemon.require_root()
        lab_command("up", str(HERE / "fleet.yml"), "--name", FLEET)
        try:
            recorded = record(lab)
        finally:
            lab_command("down", FLEET)
        edited = cast.cut(recorded)
        drawn = draw(edited)
        check(edited, drawn)
    except LabError as error:
        print(f"recording: {error}", file=sys.stderr)
        return 1
    PICTURE.write_text(drawn, encoding="utf-8")
    print(f"{PICTURE.relative_to(CHECKOUT)}: {cast.length(edited):.0f} s, {len(drawn.encode()) // 1000} kB. Look at it.")
    return 0


def lab_command(*words: str) -> None:
    if subprocess.run([sys.executable, "-m", "tests.lab", *words], cwd=CHECKOUT, check=False).returncode:
        raise LabError(f"python -m tests.lab {' '.join(words)} failed")


def record(lab: Lab) -> str:
    folder = output(FLEET)
    demo.print_steps_only(folder)
    file = TOOLS / "recording.cast"
    file.unlink(missing_ok=True)
    # The picture shows no warnings, because this fleet's warnings are about the lab and its release of Docker.
    errors = TOOLS / "stderr.log"
    story = f"{sys.executable} -m tests.recording.story 2>{errors}"
    size = ["--cols", str(COLUMNS), "--rows", str(ROWS)]
    # Remove CI and NO_COLOR. With them, the callback prints a log instead of its output for a terminal.
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    environment = {**kept, **inventory.variables(lab, folder), "PYTHONPATH": str(CHECKOUT), "TERM": "xterm-256color"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    command = [str(TOOLS / "bin" / "asciinema"), "rec", "--quiet", *size, "--command", story, str(file)]
    subprocess.run(command, cwd=CHECKOUT, env=environment, check=True)
    text = file.read_text(encoding="utf-8")
    if json.dumps(cast.END)[1:-1] not in text:
        raise LabError(f"the story failed; see {file.relative_to(CHECKOUT)} and {errors.relative_to(CHECKOUT)}")
    return text


def draw(text: str) -> str:
    command = [str(TOOLS / "node_modules" / ".bin" / "svg-term"), "--window", "--no-cursor", "--width", str(WIDTH), "--height", str(ROWS)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"svg-term failed: {done.stderr}")
    # Add a view box, so that a page can show the picture in another size.
    size = re.compile(r'<svg (.*?)width="([\d.]+)" height="([\d.]+)"')
    return size.sub(rf'<svg role="img" aria-label="{LABEL}" \1viewBox="0 0 \2 \3"', done.stdout, count=1)


def check(text: str, drawn: str) -> None:
    """Fail if the picture is too large, takes too long, or shows a name or path of this machine."""
    if len(drawn.encode()) > LARGEST or cast.length(text) > LONGEST:
        raise LabError(f"{len(drawn.encode())} bytes and {cast.length(text):.0f} s; at most {LARGEST} bytes and {LONGEST} s are wanted")
    shown = [name for name in (str(CHECKOUT), str(Path.home()), socket.gethostname()) if name in text]
    if shown:
        raise LabError(f"the recording shows {', '.join(shown)}, which is of this machine")


if __name__ == "__main__":
    sys.exit(main())
