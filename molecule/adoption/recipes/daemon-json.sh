#!/bin/bash
# A recipe of 2022, by hand: the first eight digits of each GPU, and the line that every guide says to uncomment.
set -e
resources=$(nvidia-smi -a | awk '/UUID/ { printf "%s\"NVIDIA-GPU=%s\"", separator, substr($4, 1, 12); separator = ", " }')
cat >/etc/docker/daemon.json <<EOF
{
  "default-runtime": "nvidia",
  "runtimes": {
    "nvidia": {
      "path": "nvidia-container-runtime",
      "runtimeArgs": []
    }
  },
  "node-generic-resources": [$resources],
  "max-concurrent-downloads": 2
}
EOF
sed -i 's/^#swarm-resource/swarm-resource/' /etc/nvidia-container-runtime/config.toml

# Of two guides, each with a keyring of its own: apt reads no list at all any more.
url='https://nvidia.github.io/libnvidia-container/stable/debian11/$(ARCH) /'
echo "deb [signed-by=/usr/share/keyrings/nvidia-docker-keyring.gpg] $url" >/etc/apt/sources.list.d/nvidia-docker.list
echo "deb [signed-by=/usr/share/keyrings/libnvidia-container-keyring.gpg] $url" >/etc/apt/sources.list.d/libnvidia-container.list

service docker restart
