# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report the peak of a card's memory while a command runs: python3 peak.py python3 train.py

Run it on a test machine, without a share and with nothing else on the card. The values come from NVML, so they include what CUDA takes for itself.
This program needs nvidia-ml-py. Keep frameworks from taking the whole card in advance: set TF_FORCE_GPU_ALLOW_GROWTH=true for
TensorFlow and XLA_PYTHON_CLIENT_PREALLOCATE=false for JAX. PyTorch needs no setting.
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
