# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the guard's front, which dockerd calls as the program of the runtime nvidia (pure). The front is a shell script, because each container
calls it four times.

The front calls the guard only if the call is create or restore and the container requests a GPU, or a device by name. Otherwise the front runs
NVIDIA's runtime at once. So other containers start even if the guard's files are broken. A container that requests a GPU or a device starts only if
the guard allows it. The process id stays the same.

The front always looks for the variable that asks for devices, also on a node that offers none: the service then does not start without its device.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from shlex import quote
from typing import Iterable, NamedTuple

from . import bundle, refusal
from .call import BROKEN, MAY_START, PASS_THROUGH, REFUSED

# Words in config.json that can make NVIDIA's runtime give the container a GPU, or the guard a device.
_ALWAYS = ("NVIDIA_VISIBLE_DEVICES", "DOCKER_RESOURCE_", "CUDA_VERSION", "nvidia-container-devices", bundle.OFFERED + "=")
# A variable that requests a GPU. Values that request nothing do not match. Each value ends with a quote.
_REQUEST = '"(%s)=([^"vn]|v[^o]|vo[^i]|voi[^d]|void[^"]|n[^o]|no[^n]|non[^e]|none[^"])|"CUDA_VERSION=|nvidia-container-devices'
_ASKS = '"%s=[^"]' % bundle.OFFERED
_TEXT = """\
#!/bin/sh
# Written by the Ansible collection fleet.gpu_swarm, which overwrites changes. dockerd calls this instead of NVIDIA's runtime, so that a task of
# the swarm sees only the GPUs that it reserved (docs/how/isolation.md). To turn it off on this node without a restart: touch {flag}
runtime={runtime}
home={home}
python={python}
code={code}
what="" bundle="." log="" before=""
for word do
    case $before in
        --bundle | -b) bundle=$word before=""; continue ;;
        --log) log=$word before=""; continue ;;
        --root) before=""; continue ;;
    esac
    case $word in
        create | restore) what=$word ;;
        --bundle=*) bundle=${word#*=} ;;
        --log=*) log=${word#*=} ;;
    esac
    before=$word
done
if [ -z "$what" ] || [ -e "$home/{name}" ]; then
    exec "$runtime" "$@"
fi
LC_ALL=C grep -aqE {pattern} "$bundle/config.json" 2>/dev/null
if [ $? = 1 ]; then
    exec "$runtime" "$@"
fi
[ -x "$python" ] || python=python3
"$python" -IS "$code/__main__.py" "$home" "$@"
case $? in
    {goes_on}) exec "$runtime" "$@" ;;
    {refused}) exit 1 ;;
    {broken}) reported=1 ;;
    *) reported="" ;;
esac
{otherwise}
[ -z "$reported" ] || exit 1
words="{words}"
printf '{"level": "error", "msg": "%s", "time": "%s"}\\n' "$words" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >>"${log:-/dev/null}"
echo "$words" >&2
exit 1
"""
# The first pattern may also match containers that request no GPU. This does no harm as long as the guard's code works.
_OTHERWISE = """\
# The guard's code failed. A container that requests {whatever} does not start; others do.
LC_ALL=C grep -aqE {requests} "$bundle/config.json" 2>/dev/null
if [ $? = 1 ]; then
    exec "$runtime" "$@"
fi"""


class Front(NamedTuple):
    """The values of one node's front."""

    runtime: str  # the program that the front calls
    home: str
    code: str  # the directory of this version's code: if a run replaces a front that is running, the old front still finds its own code
    python: str
    listed: Iterable[str]  # the variables that the key swarm-resource of config.toml names
    # Whether the front refuses containers that request a GPU if the guard's code does not run. Containers that ask for a device are always refused.
    refuses: bool = True


def text(node: Front) -> str:
    further_names = sorted(name for name in set(node.listed) if not any(word in name for word in _ALWAYS))
    pattern = "|".join([*_ALWAYS, *map(re.escape, further_names)])
    values = {name: quote(getattr(node, name)) for name in ("runtime", "home", "code", "python")}
    values.update(flag=quote("%s/%s" % (node.home, PASS_THROUGH)), name=PASS_THROUGH, pattern=quote(pattern))
    message = refusal.with_code(refusal.BROKEN, refusal.not_running_message("$python -IS $code", "$home/%s" % PASS_THROUGH))
    values.update(words=message, goes_on=str(MAY_START), refused=str(REFUSED), broken=str(BROKEN))
    gpus = _REQUEST % "|".join(["NVIDIA_VISIBLE_DEVICES", *map(re.escape, sorted(set(node.listed)))])
    requests, whatever = ("%s|%s" % (gpus, _ASKS), "a GPU or a device") if node.refuses else (_ASKS, "a device")
    values["otherwise"] = _OTHERWISE.replace("{requests}", quote(requests)).replace("{whatever}", whatever)
    return re.sub("|".join(r"\{%s\}" % name for name in values), lambda match: values[match.group()[1:-1]], _TEXT)
