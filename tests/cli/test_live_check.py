"""`dragoman config check --live`, with upstreams that answer, lack a model, refuse a key, or are not there."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dragoman.cli.live_check import is_listed
from dragoman.cli.main import main
from dragoman.dialects import DIALECT_NAMES
from dragoman.testing import Simulator

KEY = "sk-very-secret-1234567890"
PAGE = b"<!doctype html><html><head><title>Welcome to Acme</title></head><body>%s</body></html>"


class Odd(BaseHTTPRequestHandler):
    """A server that answers by the first part of its path."""

    def do_GET(self) -> None:
        match self.path.split("/")[1]:
            case "page":
                self.reply(200, PAGE % (b"<p>x</p>" * 999), "text/html")
            case "refuses":
                shown = self.headers["authorization"]
                self.reply(401, b'{"error": {"message": "bad key %s"}}' % shown.encode())
            case "silent":
                self.server.quiet.wait(20)  # type: ignore[attr-defined]  # set below
            case _:
                self.reply(404, b'{"detail": "Not Found"}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.do_GET()

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def odd() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    server.quiet = threading.Event()  # type: ignore[attr-defined]  # for `silent`
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.quiet.set()  # type: ignore[attr-defined]  # see above
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def simulator() -> Iterator[str]:
    with Simulator() as found:
        yield f"{found.url}/v1"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("K", KEY)


def check(text: str, *arguments: str) -> Result:
    Path("dragoman.toml").write_text(text, "utf-8")
    result = CliRunner().invoke(main, ["config", "check", "--live", *arguments])
    assert KEY not in result.output
    assert "Traceback" not in result.output
    return result


def row(text: str, *arguments: str) -> dict[str, object]:
    """Return what is reported about the one upstream of a file."""
    found = json.loads(check(text, "--json", *arguments).stdout)["upstreams"]
    assert 1 == len(found)
    return dict(found[0])


def upstream(url: str, *more: str) -> str:
    return "\n".join([f'[upstreams.up]\nbase_url = "{url}"', *more, ""])


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_an_upstream_of_each_dialect_answers_with_one_token(simulator: str, dialect: str) -> None:
    text = upstream(simulator, f'dialect = "{dialect}"', 'key = "env:K"')
    text += '[[routes]]\nto = "up/sim/plain"'

    result = check(text, "--json")
    found = json.loads(result.stdout)

    assert (0, True) == (result.exit_code, found["good"])
    shown = found["upstreams"][0]
    assert ("up", True, "accepted", "ok", "sim/plain", []) == tuple(
        shown[name] for name in ("upstream", "reachable", "key", "answer", "model", "missing")
    )
    assert shown["models"] > 10
    assert shown["ms"] >= 0


def test_a_routed_model_that_the_upstream_does_not_list_is_exit_1(simulator: str) -> None:
    text = upstream(simulator) + '[[routes]]\nto = ["up/sim/plain", "up/not-there"]'

    result = check(text)

    assert 1 == result.exit_code
    shown = " ".join(result.stdout.split())
    assert "1 of 2 missing" in shown
    assert "it does not list `not-there`" in shown


def test_an_html_page_is_named_and_not_shown(odd: str) -> None:
    result = check(upstream(f"{odd}/page") + '[[routes]]\nto = "up/x"')

    assert 3 == result.exit_code
    shown = " ".join(result.stdout.split())
    assert 'an HTML page ("Welcome to Acme")' in shown
    assert "check `base_url`" in shown
    assert "<p>" not in shown


def test_a_refused_key_is_named_by_its_source(odd: str) -> None:
    found = row(upstream(f"{odd}/refuses", 'key = "env:K"') + '[[routes]]\nto = "up/x"')

    assert ("refused", "failed", True) == (found["key"], found["answer"], found["reachable"])
    assert "bad key" in str(found["reason"])
    assert "check the key in `env:K`" == found["advice"]


def test_an_upstream_that_is_not_there_is_not_asked_for_a_token() -> None:
    result = check(upstream("http://127.0.0.1:9/v1") + '[[routes]]\nto = "up/x"')
    found = row(upstream("http://127.0.0.1:9/v1") + '[[routes]]\nto = "up/x"')

    assert 3 == result.exit_code
    assert (False, "not asked") == (found["reachable"], found["answer"])
    assert "nothing accepts connections at 127.0.0.1:9" == found["reason"]
    assert "start the server, or correct `base_url`" == found["advice"]


def test_a_server_without_a_list_needs_a_model_in_the_settings(odd: str) -> None:
    found = row(upstream(f"{odd}/none"))

    assert ("not asked", None) == (found["answer"], found["models"])
    assert "name a model in a route or in `models`" == found["advice"]


def test_a_silent_server_ends_after_the_timeout(odd: str) -> None:
    text = upstream(f"{odd}/silent", 'models = ["x"]')

    found = row(text, "--timeout", "0.2")

    assert ("failed", "no complete answer within 0.2 s") == (found["answer"], found["reason"])


def test_settings_that_are_not_valid_ask_nobody() -> None:
    result = check(upstream("http://127.0.0.1:9/v1", "retrys = 1"))

    assert 1 == result.exit_code
    assert "upstreams.up.retrys: unknown key" in result.stdout


@pytest.mark.parametrize(
    ("model", "listed"),
    [
        ("gemini-2.5-pro", True),
        ("qwen3", True),
        ("org/kimi", True),
        ("kimi", True),
        ("gemini", False),
        ("qwen", False),
    ],
)
def test_a_model_is_listed_with_a_prefix_or_a_tag(model: str, listed: bool) -> None:
    names = ["models/gemini-2.5-pro", "qwen3:latest", "org/kimi"]

    assert listed == is_listed(model, names)
