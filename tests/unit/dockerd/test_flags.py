# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from node_lab import VENDOR_UNIT

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import flags as dockerd_flags
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import unit_text
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.flags import DROP_IN, ENVIRONMENT, UNIT, UnitFile
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import ConfigError

VENDOR, OVERRIDE, DEFAULTS = "/lib/systemd/system/docker.service", "/etc/systemd/system/docker.service.d/override.conf", "/etc/default/docker"
# Copied from a popular article, including its misprint.
ARTICLE = """\
[Service]
ExecStart=
ExecStart=/usr/bin/dockerd -H fdd:// --default-runtime=nvidia --node-generic-resource gpu=GPU-c143e771
"""
MULTILINE = """\
# the site's own
[Service]
LimitNOFILE=1048576
ExecStart=
ExecStart=/usr/sbin/dockerd \\
    -H fd:// \\
    --default-runtime nvidia \\
    --log-level=debug
"""
# Other common forms: flags in a variable over several lines, and comments between the lines of a command.
KUBESPRAY = """\
[Service]
Environment="DOCKER_OPTS=\\
    --registry-mirror=http://mirror.example \\
    --default-runtime=nvidia \\
    --data-root=/srv/docker"
ExecStart=
ExecStart=/usr/bin/dockerd $DOCKER_OPTS
"""
COMMENTED = """\
[Service]
ExecStart=
ExecStart=/usr/bin/dockerd \\
    -H fd:// \\
    # --node-generic-resource gpu=GPU-1 --live-restore \\
    --default-runtime=nvidia \\
    --log-level=warn
"""
COMMENTED_VARIABLE = """\
[Service]
Environment="DOCKER_OPTS=--default-runtime=nvidia \\
    # --live-restore
    --log-level=warn"
ExecStart=
ExecStart=/usr/bin/dockerd $DOCKER_OPTS
"""


def files(drop_in=None, environment=None, unit=None):
    found = [UnitFile(VENDOR, UNIT, (unit or VENDOR_UNIT).encode(), False)]
    found += [UnitFile(OVERRIDE, DROP_IN, drop_in.encode(), True)] if drop_in is not None else []
    return found + ([UnitFile(DEFAULTS, ENVIRONMENT, environment.encode(), True)] if environment is not None else [])


def drop_in(flags, program="/usr/bin/dockerd"):
    return f"[Service]\nExecStart=\nExecStart={program} {flags}\n"


# existing files -> the files afterwards (None: removed), and the resources that move to daemon.json
CASES = {
    "no option of this collection": (files(drop_in("--debug"), 'DOCKER_OPTS="--log-level=warn"\n'), {}, []),
    "no files": ([], {}, []),
    "the article": (files(ARTICLE), {OVERRIDE: None}, ["gpu=GPU-c143e771"]),
    "the article, run twice": (files(ARTICLE * 2), {OVERRIDE: None}, ["gpu=GPU-c143e771"] * 2),
    "a socket that dockerd opens itself stays": (
        files(drop_in("-H unix:///var/run/docker.sock --node-generic-resource VRAM=8000")),
        {OVERRIDE: drop_in("-H unix:///var/run/docker.sock")},
        ["VRAM=8000"],
    ),
    "a variable that dockerd does not use": (files(environment="OTHER_OPTS=--default-runtime=nvidia\n"), {}, []),
    "options with and without =": (
        files(drop_in("--node-generic-resource=A=1 --node-generic-resources B=2 --add-runtime nvidia=/usr/bin/nvidia-container-runtime")),
        {OVERRIDE: None},
        ["A=1", "B=2"],
    ),
    "other options stay": (files(drop_in("--default-runtime=nvidia --debug")), {OVERRIDE: drop_in("--debug")}, []),
    "another socket stays": (
        files(drop_in("-H tcp://0.0.0.0:2376 --default-runtime=nvidia")),
        {OVERRIDE: drop_in("-H tcp://0.0.0.0:2376")},
        [],
    ),
    "another runtime stays": (
        files(drop_in("--add-runtime=kata=/opt/kata --default-runtime=kata")),
        {OVERRIDE: drop_in("--add-runtime=kata=/opt/kata")},
        [],
    ),
    "over several lines, with comments and other settings": (
        files(MULTILINE),
        {OVERRIDE: MULTILINE.replace(" \\\n    --default-runtime nvidia", "")},
        [],
    ),
    "a comment alone does not keep a drop-in": (files("# nvidia\n" + drop_in("--default-runtime=nvidia")), {OVERRIDE: None}, []),
    "another setting keeps a drop-in": (
        files("[Service]\nTasksMax=9\n" + drop_in("--default-runtime=nvidia")),
        {OVERRIDE: "[Service]\nTasksMax=9\n" + drop_in("").replace(" \n", "\n")},
        [],
    ),
    "a drop-in without the empty ExecStart": (
        files("[Service]\nExecStart=/usr/sbin/dockerd --default-runtime=nvidia\n"),
        {OVERRIDE: None},
        [],
    ),
    "a variable of an environment file": (
        files(environment='# see dockerd(8)\nDOCKER_OPTS="--node-generic-resource SSD=1 --log-level=warn"\n#DOCKER_OPTS="--dns"\n'),
        {DEFAULTS: '# see dockerd(8)\nDOCKER_OPTS="--log-level=warn"\n#DOCKER_OPTS="--dns"\n'},
        ["SSD=1"],
    ),
    "a variable without other options": (files(environment="DOCKER_OPTS='--default-runtime=nvidia'"), {DEFAULTS: "DOCKER_OPTS=''"}, []),
    "a variable without quotes": (files(environment="DOCKER_OPTS=--default-runtime=nvidia --debug\n"), {DEFAULTS: "DOCKER_OPTS=--debug\n"}, []),
    "an Environment of a drop-in": (
        files('[Service]\nEnvironment="DOCKER_OPTS=--default-runtime=nvidia --debug" A=b\n'),
        {OVERRIDE: '[Service]\nEnvironment="DOCKER_OPTS=--debug" A=b\n'},
        [],
    ),
    "a drop-in that hides flags of other files stays": (
        files(ARTICLE, "DOCKER_OPTS=--log-level=warn\n"),
        {OVERRIDE: drop_in("-H fd://")},
        ["gpu=GPU-c143e771"],
    ),
    "a quoted variable over several lines, as Kubespray writes it": (
        files(KUBESPRAY),
        {OVERRIDE: KUBESPRAY.replace(" \\\n    --default-runtime=nvidia", "")},
        [],
    ),
    "a comment within a continued line is no flag, and stays": (
        files(COMMENTED),
        {OVERRIDE: COMMENTED.replace("--default-runtime=nvidia", "")},
        [],
    ),
    "a comment within a variable": (
        files(COMMENTED_VARIABLE),
        {OVERRIDE: COMMENTED_VARIABLE.replace("--default-runtime=nvidia", "")},
        [],
    ),
    "a byte order mark and line ends of Windows": (
        files("\ufeff[Service]\r\nExecStart=\r\nExecStart=/usr/bin/dockerd --debug \\\r\n  --default-runtime=nvidia\r\n"),
        {OVERRIDE: "\ufeff[Service]\r\nExecStart=\r\nExecStart=/usr/bin/dockerd --debug\r\n"},
        [],
    ),
    "a variable that stays one word cannot become empty": (
        files("[Service]\nEnvironment=RUNTIME=--default-runtime=nvidia\nExecStart=\nExecStart=/usr/bin/dockerd ${RUNTIME}\n"),
        {},
        [],
    ),
    "a value that only a shell can compute": (files(drop_in("--node-generic-resource gpu=${GPU_ID} --debug")), {}, []),
}


@pytest.mark.parametrize(("there", "after", "resources"), CASES.values(), ids=CASES)
def test_flags_are_taken_over(there, after, resources):
    taken = dockerd_flags.remove_managed(there)
    assert {path: content and content.decode() for path, content in taken.files.items()} == after
    assert taken.resources == resources
    # Each flag is taken over once.
    left = [one._replace(content=taken.files.get(one.path, one.content)) for one in there]
    again = dockerd_flags.remove_managed([one for one in left if one.content is not None])
    assert (again.files, again.resources, again.notes) == ({}, [], [])
    assert again.command == taken.command


@pytest.mark.parametrize(("there", "after", "resources"), CASES.values(), ids=CASES)
def test_flags_that_were_taken_over_can_be_restored(there, after, resources):
    taken = dockerd_flags.remove_managed(there)
    for one in there:
        if after.get(one.path) is None:
            continue
        back, unplaced = dockerd_flags.restore(taken.files[one.path], one.kind, taken.words[one.path])
        assert unplaced == []
        again = dockerd_flags.remove_managed([back_of._replace(content=back) if back_of.path == one.path else back_of for back_of in there])
        assert [sorted(part["words"]) for part in again.words[one.path]] == [sorted(part["words"]) for part in taken.words[one.path]]


def test_flags_find_no_place_in_a_file_that_was_changed():
    taken = [{"variable": None, "words": ["--debug"]}, {"variable": "DOCKER_OPTS", "words": ["--default-runtime=nvidia"]}]
    text = b"[Service]\nExecStart=\nLimitNOFILE=9\n"
    assert dockerd_flags.restore(text, DROP_IN, taken) == (text, ["--debug", "--default-runtime=nvidia"])
    text = b"DOCKER_OPTS=\n"
    assert dockerd_flags.restore(text, ENVIRONMENT, taken) == (b'DOCKER_OPTS="--default-runtime=nvidia"\n', ["--debug"])
    assert dockerd_flags.restore(None, ENVIRONMENT, taken[1:]) == (b"", ["--default-runtime=nvidia"])


RUNTIME_FLAG, GPU_FLAG = "--default-runtime=nvidia", "--node-generic-resource=gpu=GPU-c143e771"


def test_changes_are_reported():
    notes = dockerd_flags.remove_managed(files(ARTICLE)).notes
    assert notes == [
        f"{OVERRIDE}: -H fdd:// is a misprint of fd://. dockerd never starts with it.",
        f"{OVERRIDE}: {RUNTIME_FLAG}, {GPU_FLAG} moved from here to daemon.json.",
        f"{OVERRIDE} was removed, because it contained nothing else.",
    ]


def test_systemd_starts_the_daemon_without_these_flags():
    command = dockerd_flags.remove_managed(files(ARTICLE)).command
    assert command == ["/usr/sbin/dockerd", "-H", "fd://", "--containerd=/run/containerd/containerd.sock"]
    assert dockerd_flags.remove_managed(files(environment='DOCKER_OPTS="--debug --default-runtime=nvidia"')).command[-1] == "--debug"
    assert dockerd_flags.remove_managed(files(KUBESPRAY)).command[1:] == ["--registry-mirror=http://mirror.example", "--data-root=/srv/docker"]
    assert dockerd_flags.remove_managed(files(COMMENTED)).command[1:] == ["-H", "fd://", "--log-level=warn"]
    given = dockerd_flags.remove_managed(files(drop_in("--node-generic-resource gpu=${GPU_ID}"))).command
    assert given == ["/usr/bin/dockerd", "--node-generic-resource", "gpu=${GPU_ID}"]
    assert dockerd_flags.remove_managed([]).command == []


def test_files_that_belong_to_packages_are_not_edited():
    vendor = VENDOR_UNIT.replace("$DOCKER_OPTS", "--default-runtime=nvidia")
    taken = dockerd_flags.remove_managed(files(unit=vendor))
    assert (taken.files, taken.command[-1]) == ({}, "--default-runtime=nvidia")


def test_a_file_that_is_no_text_stays():
    with pytest.raises(ConfigError, match=r"/etc/default/docker is not UTF-8 text \(byte 1\)\. Fix the file"):
        dockerd_flags.remove_managed([UnitFile(DEFAULTS, ENVIRONMENT, b"#\xff", True)])


@pytest.mark.parametrize(
    ("argv", "is_it"),
    [(["/usr/bin/dockerd"], True), (["-/usr/sbin/dockerd", "-x"], True), (["/opt/start-docker.sh"], False), ([], False)],
)
def test_dockerd_is_recognised(argv, is_it):
    assert dockerd_flags.is_dockerd(argv) is is_it


def test_flags_return_into_a_variable_of_several_lines():
    emptied = '[Service]\nEnvironment="DOCKER_OPTS=\\\n    " A=b\nExecStart=\nExecStart=/usr/bin/dockerd $DOCKER_OPTS\n'
    back, unplaced = dockerd_flags.restore(emptied.encode(), DROP_IN, [{"variable": "DOCKER_OPTS", "words": ["--default-runtime=nvidia"]}])
    assert (dockerd_flags.remove_managed(files(back.decode())).command, unplaced) == (["/usr/bin/dockerd"], [])
    words = dockerd_flags.remove_managed(files(back.decode())).words
    assert words == {OVERRIDE: [{"variable": "DOCKER_OPTS", "words": ["--default-runtime=nvidia"]}]}


# --- text ---------------------------------------------------------------------------------------------------------------


def test_comments_are_no_settings():
    assert unit_text.settings("# a=b\n; c=d\n\n   \nplain\n") == []


@pytest.mark.parametrize(
    ("argv", "added"),
    [
        (["-H", "fd://"], False),
        (["--add-runtime", "nvidia=/usr/bin/nvidia-container-runtime"], True),
        (["--add-runtime=nvidia=/opt/another"], True),
        (["--add-runtime=nvidia-experimental=/opt/x", "--add-runtime", "kata=/opt/y"], False),
    ],
)
def test_flags_that_add_a_runtime_nvidia_are_found(argv, added):
    assert dockerd_flags.adds_runtime(argv) is added
