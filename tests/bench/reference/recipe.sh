#!/bin/sh
# Commands that people paste from articles, for one node with an installed toolkit. They write a UUID's first characters into a drop-in and one line
# into config.toml, and restart dockerd. Two errors that prevent a start of dockerd are fixed: this registers the runtime, and uses one of several
# GPUs. Other errors remain, because only the duration matters here.
set -e
GPU_ID=$(nvidia-smi -a | grep UUID | awk '{print substr($4,0,12)}' | head -n 1)
mkdir -p /etc/systemd/system/docker.service.d
cat >/etc/systemd/system/docker.service.d/override.conf <<END
[Service]
ExecStart=
ExecStart=/usr/sbin/dockerd -H fd:// --add-runtime=nvidia=/usr/bin/nvidia-container-runtime --default-runtime=nvidia --node-generic-resource gpu=${GPU_ID}
END
sed -i '1iswarm-resource = "DOCKER_RESOURCE_GPU"' /etc/nvidia-container-runtime/config.toml
systemctl daemon-reload
systemctl restart docker
