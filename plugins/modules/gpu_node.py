#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node
short_description: Makes a Docker node advertise its NVIDIA GPUs to the swarm
version_added: 0.1.0
description:
  - Reads the node's GPUs through NVML and decides which resources the node advertises. Writes the decision into two files, and leaves everything else
    in both files as it is, byte for byte.
  - In Docker's C(daemon.json), the module sets C(default-runtime), C(runtimes.nvidia) and C(node-generic-resources). In C(config.toml) of the NVIDIA
    Container Toolkit, it sets C(swarm-resource), which it derives from the resource kinds.
  - Moves the dockerd options C(--default-runtime), C(--node-generic-resource) and C(--add-runtime) for nvidia into C(daemon.json), because dockerd
    refuses to start if an option is set in both places. The module finds these options in drop-ins and units of the administrator, and in variables
    such as C(DOCKER_OPTS). If a drop-in has no other content, the module removes the drop-in. These changes need C(systemctl daemon-reload), which
    the module runs only together with the restart.
  - The original of each changed file is kept under C(backup) in O(state_dir), with the date of the first change.
  - One call is one transaction under a lock on the node. The module validates the change, writes a journal and the files, restarts
    the daemon if needed, and waits until the daemon shows the decision. If a step fails, the module restores everything.
  - To find whether a restart is needed, the module compares the decision with the running daemon, not with the files. The daemon reads
    C(node-generic-resources) only when it starts. A reload only updates C(runtimes).
  - In check mode, the module assesses the node and changes nothing. One call returns everything that a run needs to know about the node.
options:
  state:
    description:
      - With V(present), the node advertises what O(advertise) decides.
      - With V(absent), the module removes its changes. If nobody has edited a file since, the module restores the file byte for byte. Otherwise, it
        only removes the keys of this collection and restores their former values.
      - With V(gathered), the module only returns facts about the daemon, the swarm, the containers and the toolkit, and lists missing software. It
        neither decides nor changes anything, and does not read NVML.
    type: str
    choices: [present, absent, gathered]
    default: present
  restart:
    description:
      - With V(if_needed), the daemon is restarted or reloaded if its configuration differs from the decision.
      - With V(never), the module only edits the files. This also works if no engine runs, for example while you build a machine image.
    type: str
    choices: [never, if_needed]
    default: if_needed
  default_shm_size:
    description:
      - How much shared memory (C(/dev/shm)) a container gets that requests no other size, such as V(1g). Docker's own default is 64 MiB. The
        tasks of services are such containers too. Pages in use count against the memory limit of their container.
      - The module sets C(default-shm-size) in C(daemon.json). The daemon applies it with a reload, to containers that start afterwards.
      - Without this option, your own setting stays. If an earlier run set the key, the module restores your original value. If you had none, it
        removes the key, and the daemon keeps the removed value until its next restart.
      - Docker's API does not return the value of the running daemon. So the module compares only the file.
    type: str
    version_added: 0.4.0
  library_path:
    description:
      - A directory or zip file to load C(pynvml) and C(tomli) from, if the node does not have them.
      - If not given, the module tries the libraries that it keeps on the node. If they are missing, the controller sends its copies.
    type: path
  timeout:
    description: How long to wait for a restart of the daemon, and for another run on the same node, in seconds. At least 1.
    type: int
    default: 120
extends_documentation_fragment:
  - fleet.gpu_swarm.advertise
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.health
  - fleet.gpu_swarm.isolation
  - fleet.gpu_swarm.node_files
  - fleet.gpu_swarm.node_labels
  - fleet.gpu_swarm.nvml
  - fleet.gpu_swarm.restart
  - fleet.gpu_swarm.tried
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    platforms: linux
requirements:
  - systemd
  - The NVIDIA driver's C(libnvidia-ml.so.1)
  - archspec on the controller, for the labels about the CPU
notes:
  - The node needs no Python packages. The action plugin sends C(pynvml) from the controller's C(nvidia-ml-py).
  - With toolkit 1.18, the module sets C(mode) in C(config.toml) to V(legacy) if it is V(auto), V(jit-cdi) or not set. These modes ignore
    C(swarm-resource).
  - The module refuses known problems, unless O(accept_risks) names them. Examples are the kind V(GPU) with toolkit 1.19.1 or older, and discrete
    kinds with Docker Engine 23.0.2 to 25.0.2.
  - The module also refuses settings in C(config.toml) with which no task gets a GPU, or each task gets all GPUs. An example is the mode V(cdi) with a
    toolkit before 1.19.0.
  - Passwords in URLs, such as the URLs of proxies in C(daemon.json), are masked in the diff, in messages and in other texts. Values
    that other tasks compare, such as RV(resources), are not masked.
  - With C(ignore_unreachable), this task fails on an unreachable host. Otherwise Ansible would run the next task as if this task had succeeded.
  - All known issues of GPUs on Docker Swarm, with versions, references and remedies, are in C(docs/fix/known-issues.md).
seealso:
  - module: fleet.gpu_swarm.gpu_info
  - module: fleet.gpu_swarm.swarm_gpu_info
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Advertise every GPU of this node as NVIDIA-GPU
  fleet.gpu_swarm.gpu_node:

- name: See what a run would change, and which containers a restart would stop
  fleet.gpu_swarm.gpu_node:
  check_mode: true
  diff: true
  register: assessment

- name: Leave one card to the host
  fleet.gpu_swarm.gpu_node:
    advertise:
      - as: none
        select:
          pci_bus_id: ["00000000:C1:00.0"]
      - as: gpu
        kind: NVIDIA-GPU

- name: Advertise MIG devices by profile, T4 cards by their memory, and all other GPUs by their model
  fleet.gpu_swarm.gpu_node:
    advertise:
      - as: mig
      - as: vram
        select:
          model: ["*T4*"]
        reserve_mib: 512
      - as: model
        kinds:
          "*H100*": NVIDIA-H100
    extra_resources: [SSD=1]

- name: Accept that a card was removed on purpose
  fleet.gpu_swarm.gpu_node:
    expect: 7

- name: See whether a node is in a swarm, and what runs there
  fleet.gpu_swarm.gpu_node:
    state: gathered

- name: Prepare a machine image, in which no engine runs
  fleet.gpu_swarm.gpu_node:
    restart: never

- name: Remove all changes from the node
  fleet.gpu_swarm.gpu_node:
    state: absent
"""

RETURN = r"""
gpus:
  description: The node's GPUs, as M(fleet.gpu_swarm.gpu_info) returns them.
  returned: success
  type: list
  elements: dict
driver_version:
  description: The NVIDIA driver's version.
  returned: when NVML was read
  type: str
  sample: 580.65.06
cuda_version:
  description: The newest CUDA version that the driver supports.
  returned: when NVML was read
  type: str
  sample: "13.0"
resources:
  description: The resources that this node advertises according to O(advertise) and O(extra_resources), as C(KIND=value).
  returned: success
  type: list
  elements: str
  sample: ["NVIDIA-GPU=GPU-5ec2f1f4-9c1c-5d0a-8b4e-0c1a7f3e2d11"]
advertised:
  description: All resources that the daemon advertises after this change, including resources that other programs configured.
  returned: success
  type: list
  elements: str
  sample: ["NVIDIA-GPU=GPU-5ec2f1f4-9c1c-5d0a-8b4e-0c1a7f3e2d11", "SSD=1"]
  version_added: 0.2.0
kinds:
  description: The kinds of RV(resources).
  returned: success
  type: list
  elements: str
  sample: [NVIDIA-GPU]
swarm_resource:
  description: The C(swarm-resource) line of C(config.toml) for RV(kinds).
  returned: success
  type: str
  sample: DOCKER_RESOURCE_NVIDIA-GPU
labels:
  description: The labels for this node, which M(fleet.gpu_swarm.swarm_nodes) sets on a manager.
  returned: success
  type: dict
  sample: {"gpu.count": "8", "gpu.model": "NVIDIA-H100-80GB-HBM3", "gpu.mem_ge_80": "true", "cpu.x86_64_level": "v3"}
labels_unknown:
  description: Prefixes of labels that could not be computed. Existing labels of this collection with these prefixes must not be changed.
  returned: always
  type: list
  elements: str
labels_by_address:
  description: The labels of the data network for each address of a node that has not joined its swarm yet. The action plugin adds them, and the label
    is chosen when a manager shows the node's address.
  returned: with the action plugin, if the data interface is the one with the advertised address and that address is unknown
  type: dict
  sample: {"10.0.0.5": {"gpu-swarm.data-address": "10.0.0.5", "gpu-swarm.data-interface": "ib0"}}
cpu:
  description: The node's CPU as the kernel reports it. Null if NVML was not read. The action plugin turns this value into labels and does not
    return it.
  returned: without the action plugin
  type: dict
left_out:
  description: GPUs and MIG devices that are not advertised, with C(index), C(uuid), C(name), C(reason) and, if they failed, C(pci_bus_id) and more.
  returned: success
  type: list
  elements: dict
missing:
  description:
    - The software that the node lacks. Values are V(nvml_binding), V(toml_parser), V(toolkit), V(toolkit_packages) and V(engine).
    - V(toolkit_packages) means that the package manager was killed while it installed the toolkit. apt refuses any work until the packages are
      repaired.
    - In check mode, this list is only information. Otherwise, the module fails if the change requires something that is missing.
  returned: success, and with an error about one of these values
  type: list
  elements: str
adopted:
  description:
    - Existing settings that the module takes over or corrects, as sentences. Examples are flags of dockerd that move into C(daemon.json),
      other entries for the same GPUs, and a repeated or ineffective C(swarm-resource) line.
    - Except in check mode, each sentence is also a warning.
  returned: success
  type: list
  elements: str
backups:
  description: The path of the backup of each changed file.
  returned: success
  type: dict
  sample: {"/etc/docker/daemon.json": "/var/lib/gpu-swarm/backup/etc/docker/daemon.json.20260131T120000Z"}
kept:
  description: Whether O(state_dir) contains files from a change of this node.
  returned: success
  type: bool
  version_added: 0.2.0
drift:
  description: Each difference between the node and the decision, as text.
  returned: success
  type: list
  elements: str
fault:
  description: Why the node cannot provide its advertised GPUs, as its watcher would report, such as V(fault reason=mismatch). Otherwise null.
  returned: success, and with an error if the driver cannot be read
  type: str
  version_added: 0.3.0
cuda:
  description: Why CUDA does not start on this node. Null if CUDA starts.
  returned: with O(try_cuda=true) in check mode, if the node has GPUs and the device C(/dev/nvidia-uvm)
  type: str
  version_added: 0.3.0
hangs:
  description:
    - The library or command that did not answer in time. The value is V(nvml) or the name of a command such as V(nvidia-ctk). The module then stops
      its work.
  returned: with an error because of a missing answer
  type: str
  version_added: 0.2.0
refused:
  description:
    - Why the module refuses the change, each reason with C(id) and C(text). The ids are names in C(docs/fix/known-issues.md).
    - V(shrink) means fewer GPUs than before, which requires your consent by O(expect) or O(allow_shrink). You can accept the other reasons with
      O(accept_risks).
    - In check mode, this list is only information. Otherwise, the module fails if the list is not empty.
  returned: always
  type: list
  elements: dict
came:
  description:
    - The containers that started after the module inspected the node, and before it would have restarted the daemon, as in RV(containers).
    - The module did not restart the daemon, and restored the files.
  returned: with an error because of these containers
  type: list
  elements: dict
  version_added: 0.2.0
restored:
  description: Whether the files are restored. If the daemon ran before, it must also run with the restored files.
  returned: with an error after the first write
  type: bool
  version_added: 0.2.0
restart_required:
  description: Whether the daemon must be restarted to advertise the decision.
  returned: success
  type: bool
runtime_stays:
  description:
    - With O(state=absent), whether Docker keeps a runtime C(nvidia) from before the first change, in C(daemon.json) or by C(--add-runtime). Docker
      then still needs the toolkit's packages, because they contain the program of this runtime.
  returned: success
  type: bool
  version_added: 0.2.0
restarted:
  description: Whether the daemon was restarted.
  returned: success
  type: bool
reloaded:
  description: Whether the daemon reloaded its configuration.
  returned: success
  type: bool
toolkit_version:
  description: The version of the NVIDIA Container Toolkit, or null if it is not installed.
  returned: success
  type: str
toolkit_held:
  description: The toolkit's packages that the package manager keeps at their version (C(apt-mark hold), C(dnf versionlock), C(zypper addlock)).
  returned: success
  type: list
  elements: str
  version_added: 0.2.0
toolkit_files:
  description:
    - With O(state=absent), the files of the toolkit and of its repository that can be restored or removed. Files of the packages are not listed.
  returned: success
  type: list
  elements: str
  version_added: 0.3.0
engine:
  description:
    - The Docker daemon, with C(running), C(version), C(api_version), C(unit), C(socket), C(flavour), C(root_dir),
      C(default_runtime), C(runtimes), C(generic_resources), C(live_restore) and C(started_at), before any change.
    - C(lost_at_reload) lists the command-line options that a reload of the daemon would lose, without their values. If the list is not empty, the
      daemon must be restarted instead.
    - Null if Docker Engine is not installed.
  returned: always, also with an error, unless the daemon itself did not answer
  type: dict
swarm:
  description:
    - The node's own view of its membership, with C(state), C(node_id), C(addr), C(control_available), C(error), C(managers), C(manager_ids) and
      C(half_joined), and on a manager C(id), the id of its swarm. C(addresses) has the machine's addresses by interface.
    - If the node is in no swarm, C(undecided) lists addresses with their interfaces. Docker could not choose between these addresses if a swarm were
      initialised on the node. C(undecided) is empty if Docker can choose, or if C(swarm-default-advertise-addr) is set.
    - C(state) is V(inactive), V(pending), V(active), V(error), V(locked), or V(unknown) if the daemon does not run. A node in the state V(unknown)
      may be a member of a swarm, even a manager.
  returned: always, also with an error, unless the daemon itself did not answer
  type: dict
health:
  description:
    - The report of the node's watcher. C(label) is the value of the engine label. C(shown) is the label that the managers see, which may be outdated
      for a while. C(blocked) tells why the managers cannot see the label, or is null. C(reasons) lists the reasons for the state. C(report) is the
      value of O(health_report).
    - C(allocation_findings) has a list for each finding, with the name, the card, the IDs of the task and of the holder, the user of the card, and
      the start time. See C(docs/operate/allocation-check.md).
  returned: success; null if no watcher runs
  type: dict
  version_added: 0.3.0
watcher_missing:
  description: Whether the node should have a watcher of its GPUs (O(health)), but has none. RV(drift) contains this difference too.
  returned: success
  type: bool
  version_added: 0.3.0
isolation:
  description:
    - The guard in front of NVIDIA's runtime. C(level) is the isolation level of the guard. C(turned_off) tells whether an operator has turned off the
      guard with a file.
    - C(found) contains what the guard has counted since the boot, by service and by name of the count (C(docs/operate/isolation.md)).
    - C(memory) contains the cards of each resource kind for GPU memory, and the smallest amount of each kind that a task can use.
  returned: success; null if there is no guard
  type: dict
  version_added: 0.3.0
devices:
  description:
    - The names of O(devices) that this node allows, each with the devices that a service gets now. A list is empty if the node has no such device, or
      cannot give it because of C(userns-remap) or because a file turns off the guard.
    - If this run may not change the guard, the result has the names that the installed guard allows. Without a guard, the result is empty.
  returned: success
  type: dict
  sample: {"fuse": ["/dev/fuse"], "rdma": []}
  version_added: 0.4.0
isolation_level:
  description: The isolation level for which the node was assessed. This is O(isolation), or if that is not set, the current level of the node.
  returned: success
  type: str
  version_added: 0.3.0
react:
  description:
    - The service on a manager, with its C(version), the version of its C(command), the C(settings) of each part that a run installs, and
      C(running).
  returned: success; null if it is not installed
  type: dict
  version_added: 0.3.0
images:
  description:
    - At most three images of the node that GPU tests can use, each with C(id), C(name) and C(cuda).
    - Images based on NVIDIA's CUDA images come first, then the newest images. An image is based on a CUDA image if its name or its label
      C(maintainer) says so. Images whose name says that they have no glibc (Alpine, BusyBox) are excluded.
  returned: with O(look_for_images=true), if the daemon runs
  type: list
  elements: dict
  version_added: 0.2.0
containers:
  description:
    - The running containers, with C(id), C(name), C(image), C(service), C(task), C(age) in seconds and C(swarm_networks). A restart of the daemon
      stops all of them.
    - If a container is not a task, C(swarm_networks) lists the networks of the swarm that it is attached to. The container loses these networks when
      the node leaves the swarm.
  returned: always, also with an error, unless the daemon itself did not answer
  type: list
  elements: dict
"""

import errno

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._bounded import run
from ..module_utils._errors import GpuSwarmError
from ..module_utils._libraries import write_received
from ..module_utils._mask import mask, mask_data
from ..module_utils._node.node import Node
from ..module_utils._node.node_options import argument_spec

# Values that other tasks compare. They are not masked: a resource kind may be called LICENSE-TOKEN, and its number is not a secret.
DATA = (
    "resources", "advertised", "kinds", "swarm_resource", "generic_resources", "labels", "labels_unknown", "label_prefix", "gpus", "uuid",
    "containers", "busy", "came", "images", "backups", "devices",
)  # fmt: skip


def _load_watcher():
    """Import and return the watcher. Ansible sends every file that a module imports, but only a node that installs the watcher loads these files."""
    from ..module_utils._watch import commands

    return commands


def main():
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    for name in ("timeout", "nvml_timeout"):  # the role checks its variables before this, and then names the variables
        if module.params[name] < 1:
            module.fail_json(msg="%s is %d, but must be 1 or more, in seconds. Nothing was changed." % (name, module.params[name]))
    module.params["library_path"] = module.params["library_path"] or write_received(module.params["libraries"], module.tmpdir)
    node = Node(module.params, run=run, move=module.atomic_move, diff=module._diff, load=_load_watcher)
    try:
        result = node.assess() if module.check_mode or module.params["state"] == "gathered" else node.converge()
    except GpuSwarmError as problem:
        module.fail_json(msg=mask(problem.message), **mask_data(dict(node.facts, **problem.details), DATA))
    except OSError as problem:
        is_denied = problem.errno in (errno.EACCES, errno.EPERM)
        module.fail_json(
            msg=("%s: %s. Add 'become: true', and run this again." if is_denied else "%s: %s. Fix that, and run this again.")
            % (problem.filename, problem.strerror),
            **mask_data(node.facts, DATA),
        )
    for text in result.pop("warnings"):
        module.warn(mask(text))
    module.exit_json(**mask_data(result, DATA))


if __name__ == "__main__":
    main()
