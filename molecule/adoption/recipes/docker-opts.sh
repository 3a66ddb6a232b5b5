#!/bin/bash
# What Debian's unit reads, and many guides tell to use.
set -e
echo 'DOCKER_OPTS="--node-generic-resource SSD=1 --log-level=warn"' >>/etc/default/docker
systemctl restart docker
