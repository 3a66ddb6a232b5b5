# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The peak of a card's memory while a command runs: python3 peak.py python3 train.py

Run it on a test machine, without a share and with nothing else on the card. It samples NVML, so that what CUDA takes for itself is in it.
It needs nvidia-ml-py. A framework that takes the whole card in advance has to be kept from that: PyTorch does not,
TF_FORCE_GPU_ALLOW_GROWTH=true for TensorFlow, XLA_PYTHON_CLIENT_PREALLOCATE=false for JAX.
"""

import subprocess
import sys

import pynvml

EVERY_S = 0.1
MIB = 1024 * 1024


def used(cards):
    return [pynvml.nvmlDeviceGetMemoryInfo(card).used // MIB for card in cards]


def main(command):
    pynvml.nvmlInit()
    cards = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]
    before = peak = used(cards)
    process = subprocess.Popen(command)
    while process.returncode is None:
        try:
            process.wait(EVERY_S)
        except subprocess.TimeoutExpired:
            peak = list(map(max, peak, used(cards)))
    for number, most in enumerate(peak):
        print("GPU %d: %d MiB at most, %d MiB before" % (number, most, before[number]), file=sys.stderr)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if sys.argv[1:] else __doc__)
