#!/bin/bash
# What nvidia-docker 1.x leaves: a volume of a driver that was there once, and a container that uses the one of today's.
set -e
machine=/etc/gpu-lab/nvml.conf
cp "$machine" "$machine.now"
sed -i 's/^driver = .*/driver = 375.66/' "$machine"
docker volume create --driver nvidia-docker nvidia_driver_375.66
mv "$machine.now" "$machine"
nvidia-docker run --name trainer lab/task true
