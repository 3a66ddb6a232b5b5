#!/bin/sh
# What people paste from articles, for one node whose toolkit is installed: a UUID's first characters into a drop-in, one
# line into config.toml, and a restart. Fixed where it would not start dockerd at all (the runtime is registered, one GPU
# is taken of several); it is wrong in other ways too, and stands here for the time that it takes.
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
