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
def test_the_error_says_why_dockerd_gave_up(journal, reason):
    assert reason_from_journal(journal) == reason


# --- what systemd says ----------------------------------------------------------------------------------------------

def systemctl_output(state="active", step="running", **more):
    return "".join(f"{name}={value}\n" for name, value in dict(LoadState="loaded", ActiveState=state, SubState=step, **more).items())


class Systemd:
    """Answers ``systemctl show`` with one text after another, then always with the last. Records other commands and the time limits of restarts."""

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
            # Like in systemd 252, --lines with --since returns the first lines.
            return 0, "".join(lines[:most] if "--since" in argv else lines[len(lines) - most :]), ""
        if argv[1] == self.hangs_at:
            raise TimedOut("'systemctl %s docker.service' timed out" % self.hangs_at, hangs="systemctl")
        return (1, "", self.fails) if self.fails and argv[1] != "reset-failed" else (0, "", "")


def unit(*texts, **options):
    systemd = Systemd(*texts, **options)
    return Unit("docker.service", systemd), systemd


def test_a_unit_is_inspected():
    it, _systemd = unit(systemctl_output(Job="", NRestarts=2, MainPID=0, ActiveEnterTimestampMonotonic=7))
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


def test_the_files_of_a_unit_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(dockerd_unit, "DROP_INS", str(tmp_path / "%s.d" / "*.conf"))
    (tmp_path / "docker.service.d").mkdir()
    (tmp_path / "docker.service.d" / "b.conf").write_text("")  # since the last daemon-reload
    text = systemctl_output(
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
    text = systemctl_output(EnvironmentFiles="%s/*.env (ignore_errors=yes)\nEnvironmentFiles=%s/none*.x (ignore_errors=yes)" % (tmp_path, tmp_path))
    found = [path for path, kind, _editable in unit(text)[0].inspect()["files"] if kind == "environment"]
    assert found == [str(tmp_path / name) for name in ("B.env", "a.env", "b.env", "none*.x")]


@pytest.mark.parametrize("state", ["bad-setting", "error"])
def test_a_unit_with_contradicting_files_is_still_a_unit(state):
    assert unit(systemctl_output().replace("LoadState=loaded", f"LoadState={state}"))[0].inspect()["state"] == "active"


@pytest.mark.parametrize("text", ["LoadState=not-found\nMainPID=0\n", "LoadState=masked\n", ""])
def test_without_a_unit_nothing_is_found(text):
    it, _systemd = unit(text)
    assert it.inspect() == {}
    assert it.pending(it.inspect()) is None


# --- acting ---------------------------------------------------------------------------------------------------------


def test_edited_units_are_read_again_only_with_a_restart():
    it, systemd = unit(systemctl_output(NeedDaemonReload="yes"))
    it.restart(True, 60)
    assert [argv[1] for argv in systemd.ran] == ["daemon-reload", "reset-failed", "restart"]  # an error before the restart does not count
    it, systemd = unit(systemctl_output(NeedDaemonReload="yes"))
    it.restart(False, 60)
    assert [argv[1] for argv in systemd.ran] == ["reset-failed", "restart"]
    it, systemd = unit(systemctl_output(NeedDaemonReload="yes"))
    it.reload()
    assert [argv[1] for argv in systemd.ran] == ["kill"]


def test_a_restart_clears_the_start_limit_first_and_has_a_limit():
    it, systemd = unit(systemctl_output())
    it.restart(True, 60)
    assert systemd.ran == [["systemctl", "reset-failed", "docker.service"], ["systemctl", "restart", "docker.service"]]
    assert systemd.limits == [60]


def test_a_systemctl_that_hangs_after_the_restart_reverts_nothing():
    it, systemd = unit(systemctl_output())
    it.restart(True, 60)
    systemd.hangs_at = "reset-failed"
    it.reset_start_limit()
    assert systemd.ran[-1] == ["systemctl", "reset-failed", "docker.service"]


@pytest.mark.parametrize("how", [{"hangs": True}, {"fails": "Warning! D-Bus connection terminated.\n"}])
def test_a_restart_that_systemctl_did_not_wait_for_is_pending(how):
    it, _systemd = unit(systemctl_output(), systemctl_output("activating", "start", Job=81), **how)
    it.restart(True, 60)
    assert it.pending(it.inspect()) == "systemd is still starting it (start)"


@pytest.mark.parametrize("now", [systemctl_output(ActiveEnterTimestampMonotonic=9), ""])  # the second value: systemd does not answer yet
def test_if_systemctl_loses_systemd_during_a_restart_the_caller_waits(now):
    it, systemd = unit(systemctl_output(ActiveEnterTimestampMonotonic=7), now, fails="Warning! D-Bus connection terminated.\n")
    it.restart(True, 60)
    assert systemd.ran[-1] == ["systemctl", "restart", "docker.service"]
    assert it.pending(it.inspect()) is None


def test_a_restart_that_did_not_begin_is_an_error():
    it, _systemd = unit(systemctl_output(ActiveEnterTimestampMonotonic=7), fails="Unit docker.service has a bad unit file setting.\n")
    with pytest.raises(EngineError, match="^docker.service did not start: Unit docker.service has a bad unit file setting.$"):
        it.restart(True, 60)


def test_a_daemon_is_reloaded():
    it, systemd = unit(systemctl_output())
    it.reload()
    assert systemd.ran == [["systemctl", "kill", "--kill-who=main", "--signal=SIGHUP", "docker.service"]]


def test_a_refused_command_is_an_error():
    it, _systemd = unit(systemctl_output(), fails="Unit docker.service is masked.\n")
    with pytest.raises(EngineError, match="^docker.service did not start: Unit docker.service is masked.$"):
        it.restart(True, 60)
    with pytest.raises(EngineError, match="^docker.service did not take SIGHUP: Unit docker.service is masked.$"):
        it.reload()


PENDING = [
    ("deactivating", "stop-sigterm", "stopping"),
    ("inactive", "dead", "starting"),
    ("failed", "failed", "starting"),  # an old attempt, from an earlier crash loop
    ("activating", "auto-restart", "starting"),
    ("activating", "start", "starting"),
]


@pytest.mark.parametrize(("state", "step", "doing"), PENDING)
def test_a_pending_restart_is_recognised(state, step, doing):
    it, _systemd = unit(systemctl_output(state, step, Job=81, NRestarts=0))
    it.restart(True, 60)
    assert it.pending(it.inspect()) == f"systemd is still {doing} it ({step})"


@pytest.mark.parametrize("job", ["", "0", None])
def test_a_finished_restart_is_recognised(job):
    it, _systemd = unit(systemctl_output(), systemctl_output() if job is None else systemctl_output(Job=job))
    it.restart(True, 60)
    assert it.pending(it.inspect()) is None


FAILED = [
    systemctl_output("failed", "failed", Job="", NRestarts=0),
    systemctl_output("activating", "auto-restart", Job="", NRestarts=0),
    systemctl_output("activating", "start", Job=82, NRestarts=1),  # systemd is already at its next attempt
    systemctl_output("active", "running", Job="", NRestarts=1),
]


@pytest.mark.parametrize("text", FAILED)
def test_a_failed_restart_has_its_reason(text):
    job_failed = "Job for docker.service failed because the control process exited with error code.\n"
    it, systemd = unit(systemctl_output(NRestarts=0), text, fails=job_failed, journal=JOURNAL_OF_A_LATE_FAILURE)
    before = int(time.time())
    with pytest.raises(EngineError) as raised:
        it.restart(True, 60)
    assert raised.value.message == "docker.service did not start: " + NO_BRIDGE
    option, since = systemd.ran[-1][-2:]
    assert option == "--since"  # the journal may also have the reason of an earlier failure
    assert before <= int(since[1:]) <= time.time()


def test_the_last_line_of_the_journal_is_the_reason():
    """A dockerd that stops in the second of its start usually writes more than 40 lines."""
    talk = "".join(f'time="2026-11-28T05:35:06Z" level=info msg="Subchannel {number}"\n' for number in range(100))
    it, _systemd = unit(systemctl_output(), systemctl_output("failed", "failed"), journal=talk + JOURNAL_OF_A_LATE_FAILURE)
    it.restart(True, 60)
    with pytest.raises(EngineError, match=f"did not start: {re.escape(NO_BRIDGE)}$"):
        it.pending(it.inspect())


def test_a_retry_of_systemd_that_a_restart_took_over_is_no_failure():
    """After a failed start, systemd waits for RestartSec (0.1 s on Debian 12). Our restart may replace the waiting attempt, but systemd counts it."""
    it, _systemd = unit(systemctl_output("activating", "auto-restart", NRestarts=0), systemctl_output(NRestarts=1), systemctl_output(NRestarts=2))
    it.restart(True, 60)
    assert it.pending(it.inspect()) is None
    with pytest.raises(EngineError, match="did not start"):  # dockerd ended again after the restart
        it.pending(it.inspect())


def test_a_restart_may_fail_without_a_message():
    it, _systemd = unit(systemctl_output(), systemctl_output("failed", "failed"))
    it.restart(True, 60)
    with pytest.raises(EngineError, match="did not start: the journal does not say why$"):
        it.pending(it.inspect())


def test_earlier_restarts_do_not_count():
    it, _systemd = unit(systemctl_output(NRestarts=2), systemctl_output(NRestarts=0))
    it.restart(True, 60)
    assert it.pending(it.inspect()) is None
    it, _systemd = unit(systemctl_output(NRestarts=2))
    it.reload()
    assert it.pending(it.inspect()) is None


def test_a_journal_that_cannot_be_read_in_time_hides_no_error():
    def run(argv):
        raise TimedOut("'journalctl --unit' timed out", hangs="journalctl")

    assert Unit("docker.service", run).reason() == ""


def test_without_an_action_the_whole_journal_counts():
    it, systemd = unit(systemctl_output(), journal=JOURNAL_OF_A_START)
    assert it.reason() == ""
    assert "--since" not in systemd.ran[-1]
