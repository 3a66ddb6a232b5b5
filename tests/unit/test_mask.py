# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.filter.mask import FilterModule
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._mask import mask, mask_data, mask_value_in_key

ROOT = Path(__file__).parents[2]
MASKED = {
    "http://svc:S3cret@proxy": "http://svc:***@proxy",
    "http://svc:S3cret@proxy:3128/path?x=1": "http://svc:***@proxy:3128/path?x=1",
    "https://svc:S3@cret@proxy.example.org": "https://svc:***@proxy.example.org",
    "http://svc:S3%40cr%3Aet@proxy": "http://svc:***@proxy",
    "http://svc:S3%%40cret@proxy": "http://svc:***@proxy",
    "http://svc:S3:cret@[::1]:3128": "http://svc:***@[::1]:3128",
    "http://:S3cret@proxy": "http://:***@proxy",
    "https://S3cret@mirror/debian": "https://***@mirror/debian",
    "socks5h://svc:S3cret@proxy": "socks5h://svc:***@proxy",
    "HTTP://SVC:S3cret@PROXY": "HTTP://SVC:***@PROXY",
    "http://svc:S3/cret@proxy:3128": "http://svc:***@proxy:3128",
    "http://svc:S3?c#ret@proxy:3128/": "http://svc:***@proxy:3128/",
    'Environment="HTTP_PROXY=http://svc:S3cret@proxy" "HTTPS_PROXY=http://svc:S3cret@proxy"':
        'Environment="HTTP_PROXY=http://svc:***@proxy" "HTTPS_PROXY=http://svc:***@proxy"',
    "http://a:S3cret@x,http://b:S3cret@y": "http://a:***@x,http://b:***@y",
    "http://plain:3128,http://b:S3cret@y": "http://plain:3128,http://b:***@y",
    r'"http:\/\/svc:S3cret@proxy"': r'"http:\/\/svc:***@proxy"',
    r'"http://svc:S3\"cret@proxy", "x": "a@b"': r'"http://svc:***@proxy", "x": "a@b"',
    r'"http://svc:S3cret\u0040proxy"': r'"http://svc:***\u0040proxy"',
    r'"http\u003a\u002f\u002fsvc:S3cret@proxy"': r'"http\u003a\u002f\u002fsvc:***@proxy"',
    r"http://svc:S3cret\x40proxy": r"http://svc:***\x40proxy",
    "--http-proxy=http://svc:S3cret@proxy --debug": "--http-proxy=http://svc:***@proxy --debug",
    "from file: http://svc:S3cret@proxy, from flag: http://svc:S3cret@other)": "from file: http://svc:***@proxy, from flag: http://svc:***@other)",
    'parse "http://svc:S3cret@pro xy": invalid character " " in host name': 'parse "http://svc:***@pro xy": invalid character " " in host name',
    '"splunk-token": "S3cret", "max-size": "10m"': '"splunk-token": "***", "max-size": "10m"',
    "--log-opt splunk-token=S3cret --debug": "--log-opt splunk-token=*** --debug",
    "Environment=PROXY_PASSWORD=S3cret": "Environment=PROXY_PASSWORD=***",
    '"http-proxy": "svc:S3cret@proxy:3128"': '"http-proxy": "svc:***@proxy:3128"',
    '{"http-proxy":"svc:S3cret@proxy:3128","no-proxy":"a@b"}': '{"http-proxy":"svc:***@proxy:3128","no-proxy":"a@b"}',
    "HTTP_PROXY=svc:S3cret@proxy:3128": "HTTP_PROXY=svc:***@proxy:3128",
    "Environment='HTTP_PROXY=svc:S3@cr/et@proxy' 'X=y'": "Environment='HTTP_PROXY=svc:***@proxy' 'X=y'",
    "--http-proxy=svc:S3cret@proxy --debug": "--http-proxy=svc:***@proxy --debug",
    r'"svc:S3cret\u0040proxy"': r'"svc:***\u0040proxy"',
    '"fluentd-shared-key": "S3cret"': '"fluentd-shared-key": "***"',
    "--log-opt aws_secret_access_key=S3cret": "--log-opt aws_secret_access_key=***",
}  # fmt: skip
LEFT = [
    "",
    "http://proxy:3128/path",
    "https://nvidia.github.io/libnvidia-container",
    "node-generic-resources listed 'GPU-1', write to me@example.org",
    "https://registry:5000/cuda@sha256:0123",
    "https://example.org/user@host and http://proxy:3128",
    "tcp://0.0.0.0:2376",
    '{"proxies": {"http-proxy": "http://proxy:3128", "no-proxy": "a@b"}}',
    "the join token is read, and no password is required",
    "C:\\Users\\x @ home",
    '"nvidia/cuda:13.0@sha256:0123", "cuda:13.0@sha256:0123", image=cuda:13.0@sha256:0123',
    '"registry:5000/user@host", "git@example.org:fleet", {"a":"b@c"}',
    r'"{\"a\":\"b@c\"}"',
    '"tokens": 4, "data-root": 12, "tls-key": "/etc/key.pem"',
]


@pytest.mark.parametrize(("text", "shown"), MASKED.items(), ids=list(MASKED))
def test_credentials_are_masked(text, shown):
    assert mask(text) == shown
    assert mask(shown) == shown
    assert "S3" not in mask(json.dumps({"a": [text]}))
    assert "S3" not in mask(json.dumps(json.dumps({"a": [text]})))
    assert "S3" not in mask(repr(text))


@pytest.mark.parametrize("text", ['"splunk-token": 12345', '{"password":12345}', "{'passwd': 12345}", '"shared_key": -1.2345e+6,'])
def test_a_number_is_masked_too(text):
    for shown in (mask(text), mask(json.dumps(text)), mask(json.dumps(json.dumps(text)))):
        assert "2345" not in shown
        assert "***" in shown


@pytest.mark.parametrize("text", LEFT)
def test_other_texts_stay(text):
    assert mask(text) == text


KEYS = {"A=b": "A=***", "A:b": "A:***", "A=b=c": "A=***", "a.b/c": "a.b/c", "A=": "A=", "": "", "A=\nb": "A=***"}


@pytest.mark.parametrize(("key", "shown"), KEYS.items())
def test_a_key_is_shown_without_a_value_in_it(key, shown):
    assert mask_value_in_key(key) == shown


def test_every_text_in_a_result_is_masked():
    secret = "http://svc:S3cret@proxy"
    assert "S3cret" not in str(mask_data({"a": [secret, {"b": (secret,)}], "c": 1, "d": None}))
    assert mask_data({"a": {"kinds": ["A-TOKEN=4"], "text": "token=4"}}, ("kinds",)) == {"a": {"kinds": ["A-TOKEN=4"], "text": "token=***"}}
    assert mask_data({"a": 1, "b": [None, True], "c": "x"}) == {"a": 1, "b": [None, True], "c": "x"}


LONG = ["a" * 50000, "http://" * 9000, "http://a:" * 9000, "a:b@" * 9000, '"token": ' * 9000, "\\" * 50000 + "@", "@" + "=a:" * 20000, "=a:b@" * 9000]


@pytest.mark.parametrize("text", LONG)
def test_every_text_is_masked_in_time(text):
    began = time.process_time()
    mask(text)
    assert time.process_time() - began < 2


def test_the_filter_masks():
    assert FilterModule().filters()["mask"]("http://svc:S3cret@proxy") == "http://svc:***@proxy"


@pytest.mark.parametrize("tasks", sorted((ROOT / "roles").glob("*/tasks/*.yml")), ids=lambda path: f"{path.parts[-3]}/{path.name}")
def test_errors_of_commands_are_masked(tasks):
    """apt, dnf and zypper print an unreadable URL with its credentials."""
    shown = re.findall(r"msg:.*?(?=\n *\w+:|\Z)", tasks.read_text(), re.DOTALL)
    complaints = [found for text in shown for found in re.findall(r"{{(?:(?!}}).)*stderr(?:(?!}}).)*}}", text, re.DOTALL)]
    assert [found for found in complaints if "fleet.gpu_swarm.mask" not in found] == []
