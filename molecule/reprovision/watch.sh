#!/bin/sh
# Runs on a manager until the directory $1 has a file "stop". Records every node event, and the service's running tasks with the time.
set -eu
cd "$1"
docker events --filter type=node --format '{{json .}}' >node-events &
events=$!
while [ ! -e stop ]; do
    now=$(date +%s.%N)
    docker service ps --no-trunc --format "$now {{.ID}} {{.Node}} {{.CurrentState}}" --filter desired-state=running web >>samples
    sleep 0.3
done
kill "$events"
