"""A program that replaces a coding agent: it finds the gateway as the real one does, asks it once, and prints
what it saw.

It is copied onto PATH under the agent's name.  `FAKE_OUT` names the file it writes, `FAKE_EXIT` its exit code;
with `FAKE_WAIT` it prints that it waits, and goes on when a line comes, or a signal that it handles.
"""

import json
import os
import re
import signal
import sys
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

NAME = Path(sys.argv[0]).name
OUT = Path(os.environ["FAKE_OUT"])
HEARD = []


def find_gateway():
    """Return the address of the dialect's endpoint, the headers that show the key, and a request."""
    turn = {"role": "user", "content": "Hello"}
    if NAME == "claude":
        env = json.loads(Path(argument("--settings")).read_text("utf-8"))["env"]
        env = dict(os.environ) | env
        model = env.get("ANTHROPIC_MODEL", "claude-opus-4-5")
        headers = {"authorization": f"Bearer {env['ANTHROPIC_AUTH_TOKEN']}"}
        body = {"model": model, "max_tokens": 100, "messages": [turn]}
        return f"{env['ANTHROPIC_BASE_URL']}/v1/messages?beta=true", headers, body
    if NAME == "codex":
        config = tomllib.loads("\n".join(value for flag, value in pairs() if flag == "-c"))
        provider = config["model_providers"][config["model_provider"]]
        headers = {"authorization": f"Bearer {os.environ[provider['env_key']]}"}
        body = {"model": config["model"], "input": [turn]}
        return f"{provider['base_url']}/{provider['wire_api']}", headers, body
    config = json.loads(os.environ["OPENCODE_CONFIG_CONTENT"])
    name, _, model = config["model"].partition("/")
    options = config["provider"][name]["options"]
    key = re.sub(r"\{env:(\w+)\}", lambda found: os.environ[found[1]], options["apiKey"])
    body = {"model": model, "max_tokens": 100, "messages": [turn]}
    return f"{options['baseURL']}/messages", {"x-api-key": key}, body


def pairs():
    return list(zip(sys.argv[1:], sys.argv[2:], strict=False))


def argument(flag):
    return dict(pairs())[flag]


def ask(url, headers, body):
    headers = {"content-type": "application/json", **headers}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def wait():
    for name in os.environ["FAKE_WAIT"].split():
        signal.signal(getattr(signal, name), heed)
    Path(f"{OUT}.waits").touch()
    sys.stdin.readline()
    sys.exit(40 + len(HEARD))


def heed(number, frame):
    HEARD.append(number)
    if number != signal.SIGINT:
        sys.exit(40 + number)
    Path(f"{OUT}.heard").touch()


def main():
    url, headers, body = find_gateway()
    status, answer = ask(url, headers, body)
    report = {
        "arguments": sys.argv[1:],
        "variables": dict(os.environ),
        "url": url,
        "headers": headers,
        "asked": body,
        "status": status,
        "answer": answer,
    }
    OUT.write_text(json.dumps(report), "utf-8")
    if "FAKE_WAIT" in os.environ:
        wait()
    sys.exit(int(os.environ.get("FAKE_EXIT", "0")))


main()
