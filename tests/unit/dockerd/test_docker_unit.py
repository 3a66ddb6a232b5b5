# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import time

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._bounded import TimedOut
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import docker_unit as dockerd_unit
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.docker_unit import EngineError, Unit, reason_from_journal

# --- why dockerd did not start --------------------------------------------------------------------------------------

JOURNAL_OF_A_REFUSAL = """\
Starting docker.service - Docker Application Container Engine...
unable to configure the Docker daemon with file /etc/docker/daemon.json: the following directives are specified both as a flag and \
in the configuration file: node-generic-resources: (from flag: [GPU=b], from file: [GPU=a])
docker.service: Main process exited, code=exited, status=1/FAILURE
docker.service: Failed with result 'exit-code'.
Failed to start docker.service - Docker Application Container Engine.
docker.service: Scheduled restart job, restart counter is at 3.
docker.service: Start request repeated too quickly.
docker.service: Failed with result 'exit-code'.
Failed to start docker.service - Docker Application Container Engine.
"""
JOURNAL_OF_A_LATE_FAILURE = """\
time="2026-11-20T23:07:10.907201193Z" level=info msg="Starting up"
time="2026-11-20T23:07:10.931136042Z" level=warning msg="failed to load plugin io.containerd.snapshotter.v1.devmapper"
failed to start daemon: Error initializing network controller: error creating default "bridge" network
docker.service: Main process exited, code=exited, status=1/FAILURE
Failed to start Docker Application Container Engine.
"""
JOURNAL_OF_A_START = """\
Starting docker.service - Docker Application Container Engine...
time="2026-11-20T23:07:11.031136042Z" level=info msg="Loading containers: start."
time="2026-11-20T23:07:11.089767294Z" level=info msg="Daemon has completed initialization"
Started docker.service - Docker Application Container Engine.
"""


CONFLICT = JOURNAL_OF_A_REFUSAL.splitlines()[1]
MIXED = (
    "unable to configure the Docker daemon with file x.json: configuration validation from file failed: could not parse"
    " GenericResource: mixed discrete and named resources in expression 'GPU=[1 a]'"
)
NO_BRIDGE = 'failed to start daemon: Error initializing network controller: error creating default "bridge" network'


@pytest.mark.parametrize(
    ("journal", "reason"),
    [
        (JOURNAL_OF_A_REFUSAL, CONFLICT),
        (JOURNAL_OF_A_LATE_FAILURE, NO_BRIDGE),
        (MIXED + "\n", MIXED),
        ("unknown flag: --no-such\nSee 'dockerd --help'.\n", "unknown flag: --no-such"),
        (JOURNAL_OF_A_START, ""),
        ("", ""),
    ],
)
def test_why_dockerd_gave_up(journal, reason):
    assert reason_from_journal(journal) == reason


# --- what systemd says ----------------------------------------------------------------------------------------------

def shown(state="active", step="running", **more):
    return "".join(f"{name}={value}\n" for name, value in dict(LoadState="loaded", ActiveState=state, SubState=step, **more).items())


class Systemd:
    """Answers ``systemctl show`` with one text after another, the last one for good; keeps what else was run, and the limits of restarts."""

    def __init__(self, *texts, fails=None, journal="", hangs=False):
        self.texts, self.fails, self.journal, self.hangs_at, self.ran, self.limits = list(texts), fails, journal, "restart" if hangs else "", [], []

    def __call__(self, argv, limit_s=120):
        if argv[1] == "restart":
            self.limits.append(limit_s)
        if argv[1] == "show":
            return 0, self.texts.pop(0) if len(self.texts) > 1 else self.texts[0], ""
        self.ran.append(argv)
        if argv[0] == "journalctl":
            lines = self.journal.splitlines(keepends=True)
            most = int(argv[argv.index("--lines") + 1]) if "--lines" in argv else len(lines)
            # As of systemd 252: with --since, --lines are the first ones.
            return 0, "".join(lines[:most] if "--since" in argv else lines[len(lines) - most :]), ""
        if argv[1] == self.hangs_at:
            raise TimedOut("'systemctl %s docker.service' timed out" % self.hangs_at, hangs="systemctl")
        return (1, "", self.fails) if self.fails and argv[1] != "reset-failed" else (0, "", "")


def unit(*texts, **options):
    systemd = Systemd(*texts, **options)
    return Unit("docker.service", systemd), systemd


def test_inspect():
    it, _systemd = unit(shown(Job="", NRestarts=2, MainPID=0, ActiveEnterTimestampMonotonic=7))
    assert it.inspect() == {
        "state": "active",
        "step": "running",
        "job": False,
        "restarts": 2,
        "pid": 0,
        "started_at": "7",
        "flags": [],
        "files": [],
        "needs_reload": False,
    }


def test_files_of_the_unit(tmp_path, monkeypatch):
    monkeypatch.setattr(dockerd_unit, "DROP_INS", str(tmp_path / "%s.d" / "*.conf"))
    (tmp_path / "docker.service.d").mkdir()
    (tmp_path / "docker.service.d" / "b.conf").write_text("")  # since the last daemon-reload
    text = shown(
        FragmentPath="/lib/systemd/system/docker.service",
        DropInPaths="/run/systemd/system/docker.service.d/c.conf /etc/systemd/system/docker.service.d/a\\x20b.conf",
        EnvironmentFiles="/etc/default/docker (ignore_errors=yes)\nEnvironmentFiles=/usr/lib/x (ignore_errors=no)",
        NeedDaemonReload="yes",
    )
    view = unit(text)[0].inspect()
    assert view["needs_reload"] is True
    assert view["files"] == [
        ("/lib/systemd/system/docker.service", "unit", False),
        ("/etc/systemd/system/docker.service.d/a b.conf", "drop-in", True),
        (str(tmp_path / "docker.service.d" / "b.conf"), "drop-in", False),
        ("/run/systemd/system/docker.service.d/c.conf", "drop-in", False),
        ("/etc/default/docker", "environment", True),
        ("/usr/lib/x", "environment", False),
    ]


def test_environment_files_are_those_that_a_pattern_fits_in_the_order_in_which_systemd_reads_them(tmp_path):
    for name in ("b.env", "B.env", "a.env", ".hidden.env", "c.conf"):
        (tmp_path / name).write_text("")
    text = shown(EnvironmentFiles="%s/*.env (ignore_errors=yes)\nEnvironmentFiles=%s/none*.x (ignore_errors=yes)" % (tmp_path, tmp_path))
    found = [path for path, kind, _editable in unit(text)[0].inspect()["files"] if kind == "environment"]
    assert found == [str(tmp_path / name) for name in ("B.env", "a.env", "b.env", "none*.x")]


@pytest.mark.parametrize("state", ["bad-setting", "error"])
def test_a_unit_whose_files_contradict_themselves_is_one(state):
    assert unit(shown().replace("LoadState=loaded", f"LoadState={state}"))[0].inspect()["state"] == "active"


@pytest.mark.parametrize("text", ["LoadState=not-found\nMainPID=0\n", "LoadState=masked\n", ""])
def test_no_unit(text):
    it, _systemd = unit(text)
    assert it.inspect() == {}
    assert it.pending(it.inspect()) is None


# --- acting ---------------------------------------------------------------------------------------------------------


def test_units_that_were_edited_are_read_anew_with_a_restart_and_never_without():
    it, systemd = unit(shown(NeedDaemonReload="yes"))
    it.restart(True, 60)
    assert [argv[1] for argv in systemd.ran] == ["daemon-reload", "reset-failed", "restart"]  # what fails before the restart does not count
    it, systemd = unit(shown(NeedDaemonReload="yes"))
    it.restart(False, 60)
    assert [argv[1] for argv in systemd.ran] == ["reset-failed", "restart"]
    it, systemd = unit(shown(NeedDaemonReload="yes"))
    it.reload()
    assert [argv[1] for argv in systemd.ran] == ["kill"]


def test_a_restart_clears_the_start_limit_first_and_has_a_limit():
    it, systemd = unit(shown())
    it.restart(True, 60)
    assert systemd.ran == [["systemctl", "reset-failed", "docker.service"], ["systemctl", "restart", "docker.service"]]
    assert systemd.limits == [60]


def test_a_systemctl_that_hangs_after_the_restart_undoes_nothing():
    it, systemd = unit(shown())
    it.restart(True, 60)
    systemd.hangs_at = "reset-failed"
    it.settled()
    assert systemd.ran[-1] == ["systemctl", "reset-failed", "docker.service"]


@pytest.mark.parametrize("how", [{"hangs": True}, {"fails": "Warning! D-Bus connection terminated.\n"}])
def test_a_restart_that_systemctl_has_not_waited_for_is_under_way(how):
    it, _systemd = unit(shown(), shown("activating", "start", Job=81), **how)
    it.restart(True, 60)
    assert it.pending(it.inspect()) == "systemd is still starting it (start)"


@pytest.mark.parametrize("now", [shown(ActiveEnterTimestampMonotonic=9), ""])  # or systemd does not answer yet
def test_a_restart_over_which_systemctl_lost_systemd_is_left_to_who_waits(now):
    it, systemd = unit(shown(ActiveEnterTimestampMonotonic=7), now, fails="Warning! D-Bus connection terminated.\n")
    it.restart(True, 60)
    assert systemd.ran[-1] == ["systemctl", "restart", "docker.service"]
    assert it.pending(it.inspect()) is None


def test_a_restart_that_was_not_begun():
    it, _systemd = unit(shown(ActiveEnterTimestampMonotonic=7), fails="Unit docker.service has a bad unit file setting.\n")
    with pytest.raises(EngineError, match="^docker.service did not start: Unit docker.service has a bad unit file setting.$"):
        it.restart(True, 60)


def test_reload():
    it, systemd = unit(shown())
    it.reload()
    assert systemd.ran == [["systemctl", "kill", "--kill-who=main", "--signal=SIGHUP", "docker.service"]]


def test_what_systemd_does_not_take():
    it, _systemd = unit(shown(), fails="Unit docker.service is masked.\n")
    with pytest.raises(EngineError, match="^docker.service did not start: Unit docker.service is masked.$"):
        it.restart(True, 60)
    with pytest.raises(EngineError, match="^docker.service did not take SIGHUP: Unit docker.service is masked.$"):
        it.reload()


PENDING = [
    ("deactivating", "stop-sigterm", "stopping"),
    ("inactive", "dead", "starting"),
    ("failed", "failed", "starting"),  # from before, as the crash loop of the next one
    ("activating", "auto-restart", "starting"),
    ("activating", "start", "starting"),
]


@pytest.mark.parametrize(("state", "step", "doing"), PENDING)
def test_a_restart_that_is_under_way(state, step, doing):
    it, _systemd = unit(shown(state, step, Job=81, NRestarts=0))
    it.restart(True, 60)
    assert it.pending(it.inspect()) == f"systemd is still {doing} it ({step})"


@pytest.mark.parametrize("job", ["", "0", None])
def test_a_restart_that_is_done(job):
    it, _systemd = unit(shown(), shown() if job is None else shown(Job=job))
    it.restart(True, 60)
    assert it.pending(it.inspect()) is None


FAILED = [
    shown("failed", "failed", Job="", NRestarts=0),
    shown("activating", "auto-restart", Job="", NRestarts=0),
    shown("activating", "start", Job=82, NRestarts=1),  # systemd is at its next attempt already
    shown("active", "running", Job="", NRestarts=1),
]


@pytest.mark.parametrize("text", FAILED)
def test_a_restart_that_failed(text):
    job_failed = "Job for docker.service failed because the control process exited with error code.\n"
    it, systemd = unit(shown(NRestarts=0), text, fails=job_failed, journal=JOURNAL_OF_A_LATE_FAILURE)
    before = int(time.time())
    with pytest.raises(EngineError) as raised:
        it.restart(True, 60)
    assert raised.value.message == "docker.service did not start: " + NO_BRIDGE
    option, since = systemd.ran[-1][-2:]
    assert option == "--since"  # not why it failed some other day
    assert before <= int(since[1:]) <= time.time()


def test_the_last_line_says_why_however_many_come_before():
    """More than 40 are usual where dockerd stops in the same second."""
    talk = "".join(f'time="2026-11-28T05:35:06Z" level=info msg="Subchannel {number}"\n' for number in range(100))
    it, _systemd = unit(shown(), shown("failed", "failed"), journal=talk + JOURNAL_OF_A_LATE_FAILURE)
    it.restart(True, 60)
    with pytest.raises(EngineError, match=f"did not start: {re.escape(NO_BRIDGE)}$"):
        it.pending(it.inspect())


def test_an_attempt_of_systemd_s_own_that_a_restart_took_over_is_no_failure():
    """After a start that failed it waits for RestartSec, which is 0.1 s on Debian 12, and counts the attempt though the restart became it."""
    it, _systemd = unit(shown("activating", "auto-restart", NRestarts=0), shown(NRestarts=1), shown(NRestarts=2))
    it.restart(True, 60)
    assert it.pending(it.inspect()) is None
    with pytest.raises(EngineError, match="did not start"):  # it ended after that
        it.pending(it.inspect())


def test_a_restart_that_failed_without_a_word():
    it, _systemd = unit(shown(), shown("failed", "failed"))
    it.restart(True, 60)
    with pytest.raises(EngineError, match="did not start: the journal does not say why$"):
        it.pending(it.inspect())


def test_restarts_of_before_do_not_count():
    it, _systemd = unit(shown(NRestarts=2), shown(NRestarts=0))
    it.restart(True, 60)
    assert it.pending(it.inspect()) is None
    it, _systemd = unit(shown(NRestarts=2))
    it.reload()
    assert it.pending(it.inspect()) is None


def test_a_journal_that_cannot_be_read_in_time_hides_no_error():
    def run(argv):
        raise TimedOut("'journalctl --unit' timed out", hangs="journalctl")

    assert Unit("docker.service", run).reason() == ""


def test_without_an_act_the_whole_journal_counts():
    it, systemd = unit(shown(), journal=JOURNAL_OF_A_START)
    assert it.reason() == ""
    assert "--since" not in systemd.ran[-1]
