# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Secrets of a stack appear neither in --check and --diff, nor in Docker's messages."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import yaml

from plugins.module_utils._secret_names import has_secret, is_name_of_secret
from plugins.plugin_utils._stack.secret_values import build_masker, secret_places
from plugins.plugin_utils._stack.stack_yaml import to_display
from plugins.plugin_utils._stack.translate import Stack, translate

S = "s3cr3t-v4lue"
TRAEFIK = "traefik.http.middlewares.x.basicauth.users"
# (the keys of the service, the hidden place)
HIDDEN = {
    "environment": ({"environment": {"API_KEY": S}}, "environment.API_KEY"),
    "a key for ssh": ({"environment": {"SSH_KEY": S}}, "environment.SSH_KEY"),
    "one word": ({"environment": {"SSHKEY": S}}, "environment.SSHKEY"),
    "camels": ({"environment": {"apiKey": S}}, "environment.apiKey"),
    "short words": ({"environment": {"DB_PASS": S, "PGPASS": S, "ADMIN_PWD": S, "SENTRY_DSN": S, "SESSION_SALT": S}}, "environment.DB_PASS"),
    "of digits": ({"environment": {"API_TOKEN": 12345678}}, "environment.API_TOKEN"),
    "a list": ({"environment": [f"GITHUB_PAT={S}"]}, "environment.GITHUB_PAT"),
    "a header as a value": ({"environment": {"OTEL_HEADERS": f"authorization=Basic {S}"}}, "environment.OTEL_HEADERS"),
    "JSON as a value": ({"environment": {"CONFIG": json.dumps({"apiKey": S})}}, "environment.CONFIG"),
    "arguments as a value": ({"environment": {"ARGS": f"--port 8000 --api-key {S}"}}, "environment.ARGS"),
    "a form that is known": ({"environment": {"VALUE": f"hf_{'a1B2' * 8}{S}"}}, "environment.VALUE"),
    "a private key": ({"environment": {"VALUE": f"-----BEGIN RSA PRIVATE KEY-----\n{S}"}}, "environment.VALUE"),
    "a label": ({"labels": {"app.token": S}}, "labels.app.token"),
    "a label of a list": ({"labels": [f"app.token={S}"]}, "labels.app.token"),
    "a label of the service": ({"deploy": {"labels": {"app.token": S}}}, "deploy.labels.app.token"),
    "users of traefik": ({"deploy": {"labels": {TRAEFIK: f"me:{S}"}}}, f"deploy.labels.{TRAEFIK}"),
    "a log driver": ({"logging": {"driver": "splunk", "options": {"splunk-token": S}}}, "logging.options.splunk-token"),
    "a health check": ({"healthcheck": {"test": f"curl -H 'Authorization: Bearer {S}' localhost"}}, "healthcheck.test"),
    "words of a health check": ({"healthcheck": {"test": ["CMD", "curl", "-H", f"Authorization: {S}", "localhost"]}}, "healthcheck.test.3"),
    "another header": ({"healthcheck": {"test": f"curl -H X-Api-Key:{S} localhost"}}, "healthcheck.test"),
    "a login": ({"healthcheck": {"test": ["CMD", "curl", "-u", f"me:{S}", "localhost"]}}, "healthcheck.test.3"),
    "a login of Redis": ({"healthcheck": {"test": ["CMD", "redis-cli", "-a", S, "ping"]}}, "healthcheck.test.3"),
    "a login of MySQL": ({"healthcheck": {"test": f"mysqladmin ping -u root -p{S}"}}, "healthcheck.test"),
    "an option": ({"command": ["--api-key", S]}, "command.1"),
    "an option with its value": ({"command": ["serve", f"--api-key={S}"]}, "command.1"),
    "an option in a line": ({"command": f"serve --port 1 --api-key {S}"}, "command"),
    "an option of one dash": ({"entrypoint": ["serve", "-token", S]}, "entrypoint.2"),
    "an option of a shell": ({"command": ["sh", "-c", f"exec redis-server --requirepass {S}"]}, "command.2"),
    "a variable of a shell": ({"command": ["sh", "-c", f"PGPASSWORD={S} psql"]}, "command.2"),
    "a signed URL": ({"environment": {"MODEL": f"https://bucket/x?X-Amz-Signature={S}"}}, "environment.MODEL"),
    "a hook of Slack": ({"environment": {"NOTIFY": f"https://hooks.slack.com/services/T0/B0/{S}"}}, "environment.NOTIFY"),
    "a hook of Discord": ({"command": ["notify", f"https://discord.com/api/webhooks/123/{S}"]}, "command.1"),
    "a bot of Telegram": ({"environment": {"NOTIFY": f"https://api.telegram.org/bot123456789:{S}/send"}}, "environment.NOTIFY"),
    "a URL": ({"environment": {"URL": f"http://u:{S}@h"}}, "environment.URL"),
}  # fmt: skip
SHOWN: list[dict[str, Any]] = [
    {"environment": {"MAX_TOKENS": "4096", "TOKENIZERS_PARALLELISM": "false", "KEYBOARD": "us", "AUTHORS": "me", "MONITOR": "yes"}},
    {"environment": {"SEED": "1", "PIN_MEMORY": "1"}},
    {"command": ["--max-num-batched-tokens", "8192", "--tokenizer", "auto", "--gpu-memory-utilization", "0.9"]},
    {"command": "vllm serve --max-tokens 4096 --port 8000"},
    {"healthcheck": {"test": ["CMD", "curl", "-f", "http://auth:8080/health"]}},
    {"labels": {"traefik.http.routers.x.rule": "(Host(`a.example.org`) || Host(`b`)) && PathPrefix(`/static/`)"}},
    {"environment": {"HOST": "db:5432", "URL": "http://auth:8080/path", "WHAT": "the token is read, and no password is required"}},
]
VOLUMES = {"data": {"driver_opts": {"type": "cifs", "o": f"username=me,password={S}"}, "labels": {"x": "y"}}}


def of(service: dict[str, Any], **more: Any) -> Stack:
    return translate(yaml.safe_dump({"services": {"a": {"image": "lab/task", **service}}, **more}), "compose.yml", {"k": f"{S}-k".encode()}.get, {})


@pytest.mark.parametrize(("service", "place"), HIDDEN.values(), ids=HIDDEN)
def test_a_secret_is_not_shown(service: dict[str, Any], place: str) -> None:
    text, places = to_display(of(service).document)
    assert S not in text
    assert f"services.a.{place}" in places
    assert "lab/task" in text


def test_secrets_of_volumes_are_not_shown() -> None:
    text, places = to_display(of({"volumes": ["data:/data"]}, volumes=VOLUMES).document)
    assert S not in text
    assert places == ["volumes.data.driver_opts.o"]


@pytest.mark.parametrize("service", SHOWN)
def test_other_values_are_shown(service: dict[str, Any]) -> None:
    assert to_display(of(service).document)[1] == []


def test_secrets_are_recognised_by_name() -> None:
    assert [name for name in ("token", "a.token", "TOKENS", "prompt_tokens", "max-tokens", "tokenizer") if is_name_of_secret(name)] == [
        "token",
        "a.token",
        "TOKENS",
    ]


@pytest.mark.parametrize(
    "text", ["a" * 100000, "--a " * 20000, "a=" * 30000, " " * 100000, "x-" * 30000, '"a": ' * 20000, "mysql " * 3000, "a:" * 30000]
)
def test_every_text_is_masked_in_time(text: str) -> None:
    began = time.process_time()
    has_secret(text)
    assert time.process_time() - began < 2


STACK = {
    "environment": {
        "API_TOKEN": "s3cr3t-{{Zq+Ul66", "QUOTED": 'a"b\\c<d', "PRICE": "costs $$5.00", "LINES": "first line\nsecond", "SHORT": "abcde",
        "DB": "a:5432", "IMAGE": "lab/task", "LOGIN": "a:hunter2", "PIN": "operator:12345",
    },
    "deploy": {"labels": {"app.rule": "label-value"}},
    "command": ["serve", "train.py", "--api-key", "option-value"],
    "secrets": ["k"],
}  # fmt: skip


def test_docker_repeats_no_value() -> None:
    stack = of(STACK, secrets={"k": {"file": "k"}})
    masked = build_masker(stack.document, stack.files, "s")
    values = ["s3cr3t-{{Zq+Ul66", 'a"b\\c<d', "costs $5.00", "costs $$5.00", "first line\nsecond", "label-value", "option-value", f"{S}-k"]
    for value in [*values, "a:hunter2", "operator:12345", 's3cr3t-{{"{{"}}Zq+Ul66']:
        for said in (value, json.dumps(value), json.dumps(value).replace("<", "\\u003c"), json.dumps(json.dumps(value))[1:-1]):
            answer = masked(f"failed to create service s_a: expanding env {said!s}: rpc error")
            assert "failed to create service s_a: expanding env" in answer
            for part in (value, "s3cr3t", "b\\\\c", "5.00", "second", "label", "option", "hunter2", "12345"):
                assert part not in answer.replace("failed", "")


def test_names_images_and_ports_stay() -> None:
    stack = of(STACK, secrets={"k": {"file": "k"}})
    masked = build_masker(stack.document, stack.files, "s")
    said = 'service s_a with lab/task at a:5432, exec: "train.py": not found, abcde, port 8000'
    assert masked(said) == said


WORDS = {"NODE_ENV": "production", "MODE": "server", "KIND": "service", "WHAT": "create", "NET": "default"}


@pytest.mark.parametrize(
    "said",
    [
        "failed to create service prod-server_chat-server: invalid reference",
        "image registry.example.org/prod/server:production could not be accessed on a registry",
        "failed to create network prod-server_default: it is there already",
        "config prod-server_chat-server is in use.",
    ],
)
def test_a_value_that_is_part_of_a_name_leaves_it_readable(said: str) -> None:
    service = {"image": "registry.example.org/prod/server:production", "environment": WORDS}
    stack = translate(yaml.safe_dump({"services": {"chat-server": service}}), "compose.yml", {}.get, {})
    masked = build_masker(stack.document, stack.files, "prod-server")
    assert masked(said) == said
    assert masked(f"{said} production, a server") == f"{said} ***, a ***"


def test_a_value_with_a_name_in_it_is_masked_as_a_whole() -> None:
    stack = of({"environment": {"A": f"lab/task-{S}", "B": f"s_a {S}", "C": "first-part", "D": "part-second"}})
    masked = build_masker(stack.document, stack.files, "s")
    assert masked(f"s_a: lab/task-{S} s_a {S} first-part-second") == "s_a: *** *** ***"


def test_hidden_places_are_places_of_the_document() -> None:
    document = of(STACK, secrets={"k": {"file": "k"}}).document
    for place in secret_places(document):
        found: Any = document
        for key in place:
            found = found[int(key)] if isinstance(found, list) else found[key]
        assert isinstance(found, str)
