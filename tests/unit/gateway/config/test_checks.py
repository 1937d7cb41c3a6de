"""Every mistake is reported at once, where it is and with what to write instead."""

import os
import sys
import tomllib
from pathlib import Path

import pytest

from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import make_settings
from dragoman.gateway.config.problems import ConfigMistakesError
from tests.support.tables import in_one_test

UP = '[upstreams.up]\nbase_url = "https://host/v1"\n'
ROUTE = UP + "[[routes]]\n"
ENVIRON = {"GOOD": "value", "EMPTY": " ", "ODD": "a\nb", "ALSO_GOOD": "value"}


def around(folder: Path = Path("/nowhere")) -> ConfigEnvironment:
    return ConfigEnvironment(environ=ENVIRON, folder=folder)


def mistakes(text: str) -> list[str]:
    try:
        make_settings(tomllib.loads(text), around())
    except ConfigMistakesError as error:
        return [str(one) for one in error.mistakes]
    return []


def warnings(text: str) -> list[str]:
    return [str(one) for one in make_settings(tomllib.loads(text), around()).warnings]


TABLE = "expected a table, got"
BARE = (
    "a secret must not be in the file itself; put it into an environment variable and write "
    "`env:NAME`, or into a file and write `file:PATH`"
)


@in_one_test
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # unknown keys
        ("[servr]", "servr: unknown key; did you mean `server`?"),
        ("port = 1", "port: unknown key; it belongs to `[server]`"),
        ("prot = 1", "prot: unknown key; did you mean `port`?"),
        ("zzzz = 1", "zzzz: unknown key"),
        ("[server]\nPort = 1", "server.Port: unknown key; did you mean `port`?"),
        ("[server]\nlevel = 1", "server.level: unknown key; it belongs to `[log]`"),
        ("[server]\nbind = 1", "server.bind: unknown key; did you mean `host`?"),
        (UP + 'api_key = "x"', "upstreams.up.api_key: unknown key; did you mean `key`?"),
        (UP + 'api-key = "x"', "upstreams.up.api-key: unknown key; did you mean `key`?"),
        (UP + "timeout = 5", "upstreams.up.timeout: unknown key; did you mean `timeouts`?"),
        (UP + '"a b" = 5', 'upstreams.up."a b": unknown key'),
        (UP + f"{'x' * 50} = 5", f"upstreams.up.{'x' * 50}: unknown key"),
        (
            "[server.limits]\nmax_request_byte = 5",
            (
                "server.limits.max_request_byte: unknown key; did you mean `max_request_bytes` or "
                "`max_response_bytes`?"
            ),
        ),
        # types
        ("server = 5", f"server: {TABLE} the number 5"),
        ("server = []", f"server: {TABLE} a list"),
        ("upstreams = true", f"upstreams: {TABLE} true"),
        ('upstreams.up = "x"', f'upstreams.up: {TABLE} the string "x"'),
        (
            "[routes]",
            (
                "routes: expected a list of tables, got a table; "
                "write the table's name in two brackets: `[[…]]`"
            ),
        ),
        ("routes = 5", "routes: expected a list of tables, got the number 5"),
        ("routes = [5]", f"routes[1]: {TABLE} the number 5"),
        (
            'server.port = "8484"',
            (
                'server.port: expected a whole number, got the string "8484"; '
                "write the number alone, without quotes: 8484"
            ),
        ),
        (
            'server.keep_alive = "10s"',
            (
                'server.keep_alive: expected a number, got the string "10s"; '
                "write the number alone, without quotes: 10"
            ),
        ),
        ("server.port = 1.5", "server.port: expected a whole number, got the number 1.5; write 2"),
        ("server.port = true", "server.port: expected a whole number, got true"),
        ("server.port = nan", "server.port: expected a whole number, got the number nan"),
        (
            "server.port = 2020-01-01",
            "server.port: expected a whole number, got a date or time",
        ),
        (
            'server.insecure = "True"',
            (
                'server.insecure: expected true or false, got the string "True"; '
                "write it without quotes: true"
            ),
        ),
        (
            'server.insecure = "yes"',
            (
                'server.insecure: expected true or false, got the string "yes"; '
                "write true or false, without quotes"
            ),
        ),
        ("server.insecure = 0", "server.insecure: expected true or false, got the number 0"),
        (
            "server.host = 127",
            'server.host: expected a string, got the number 127; write it in quotes: "127"',
        ),
        (
            'server.allowed_hosts = { a = "b" }',
            "server.allowed_hosts: expected a list, got a table; write it in brackets: `[…]`",
        ),
        (
            'aliases.a = ["b"]',
            "aliases.a: expected a string, got a list",
        ),
        (
            'log.level = "warn"',
            (
                'log.level: expected one of `debug`, `error`, `info`, `warning`, got the string "warn"; '
                "did you mean `warning`?"
            ),
        ),
        (
            "log.level = 5",
            "log.level: expected one of `debug`, `error`, `info`, `warning`, got the number 5",
        ),
        (
            UP + f'tool_calls = "{"x" * 60}"',
            (
                "upstreams.up.tool_calls: expected one of `stream`, `whole`, got the string "
                f'"{"x" * 39}…"'
            ),
        ),
        (
            UP + '[tiers]\nopuss = "up/x"',
            (
                "tiers.opuss: expected one of `haiku`, `opus`, `sonnet`, got the string "
                '"opuss"; did you mean `opus`?'
            ),
        ),
        # ranges
        ("server.port = 65536", "server.port: must be at most 65535, not 65536"),
        ("server.port = -1", "server.port: must be at least 0, not -1"),
        ("server.workers = 0", "server.workers: must be at least 1, not 0"),
        ("server.keep_alive = -0.5", "server.keep_alive: must be at least 0, not -0.5"),
        ("server.keep_alive = inf", "server.keep_alive: the number inf is out of range"),
        ("server.keep_alive = nan", "server.keep_alive: the number nan is out of range"),
        (
            f"server.keep_alive = {10**400}",
            "server.keep_alive: a very large number is out of range",
        ),
        (
            "store.max_bytes = 99999999999999999999",
            "store.max_bytes: a very large number is out of range",
        ),
        (
            "[server.limits]\nmax_blocks = 0",
            "server.limits.max_blocks: must be at least 1, not 0",
        ),
        ("server.max_connections = 0", "server.max_connections: must be at least 1, not 0"),
        ("server.max_requests = 0", "server.max_requests: must be at least 1, not 0"),
        ("server.client_idle = -1.0", "server.client_idle: must be at least 0, not -1.0"),
        (
            "server.max_inflight_bytes = 1000",
            (
                "server.max_inflight_bytes: 1000 is less than `server.limits.max_request_bytes`"
                " (67108864): the largest request would never fit"
            ),
        ),
        # what is missing
        (
            "[upstreams.up]",
            'upstreams.up.base_url: missing; such as `base_url = "https://openrouter.ai/api/v1"`',
        ),
        (ROUTE, 'routes[1].to: missing; such as `to = ["upstream/model"]`'),
        (ROUTE + "to = []", "routes[1].to: the list is empty"),
        (
            "server.keys = [{ name = 'a' }]",
            'server.keys[1].key: missing; such as `key = "env:NAME"`',
        ),
        # secrets
        (UP + 'key = "sk-live-123"', f"upstreams.up.key: {BARE}"),
        (UP + "key = 5", "upstreams.up.key: expected `env:NAME` or `file:PATH`"),
        (
            UP + 'key = "OPENAI_API_KEY"',
            "upstreams.up.key: a variable is written differently here; write `env:OPENAI_API_KEY`",
        ),
        (
            UP + 'key = "${my_key}"',
            "upstreams.up.key: a variable is written differently here; write `env:my_key`",
        ),
        (
            UP + 'key = "env:NOPE"',
            (
                "upstreams.up.key: environment variable NOPE is not set; "
                "export NOPE=… or write that line into /nowhere/.env"
            ),
        ),
        (UP + 'key = "env:EMPTY"', "upstreams.up.key: `env:EMPTY` is empty"),
        (
            UP + 'key = "env:ODD"',
            "upstreams.up.key: the value of `env:ODD` has characters that are not allowed in a header",
        ),
        (
            UP + 'key = "env:A B"',
            "upstreams.up.key: `A B` is not a variable name; write `env:NAME`",
        ),
        (UP + 'key = "file:"', "upstreams.up.key: `file:` has no path; write `file:PATH`"),
        (
            UP + 'key = "file:x"',
            "upstreams.up.key: cannot read /nowhere/x: no such file or directory",
        ),
        (
            UP + 'key = "file:a\\u0000b"',
            "upstreams.up.key: cannot read /nowhere/a\N{REPLACEMENT CHARACTER}b: embedded null byte",
        ),
        ('server.keys = ["sk-live-123"]', f"server.keys[1].key: {BARE}"),
        ('server.keys = "sk-live-123"', f"server.keys[1].key: {BARE}"),
        ("server.keys = [5]", f"server.keys[1]: {TABLE} the number 5"),
        (
            UP + 'headers = { Authorization = "Bearer sk-live-123" }',
            f"upstreams.up.headers.Authorization: {BARE}",
        ),
        (UP + 'headers = { x-api-key = "123" }', f"upstreams.up.headers.x-api-key: {BARE}"),
        # headers and bodies
        (
            UP + "headers = { x-a = 5 }",
            "upstreams.up.headers.x-a: expected a string, got the number 5",
        ),
        (
            UP + 'headers = { x-a = "a\\nb" }',
            "upstreams.up.headers.x-a: a header has plain characters only, on one line",
        ),
        (UP + 'headers = { "x a" = "b" }', 'upstreams.up.headers."x a": not a header name'),
        (
            UP + 'headers = { Host = "b" }',
            "upstreams.up.headers.Host: this header belongs to the connection and cannot be set",
        ),
        (
            UP + "body = { since = 2020-01-01 }",
            "upstreams.up.body.since: a date or time cannot be written as JSON; write it in quotes",
        ),
        (
            UP + "body = { a = [1, { b = nan }] }",
            "upstreams.up.body.a[2].b: the number nan cannot be written as JSON",
        ),
        (
            UP + f"body = {{ a = {2**63} }}",
            "upstreams.up.body.a: a very large number cannot be written as JSON",
        ),
        # names
        (
            '[upstreams.up]\nbase_url = "https://a\ufffdb/v1"',
            "upstreams.up.base_url: not an address: its host is not a valid name",
        ),
        (
            '[upstreams."a/b"]\nbase_url = "https://host/v1"',
            (
                'upstreams."a/b": an upstream\'s name may contain only letters, digits, `.`, `_` and `-`; '
                "in `upstream/model` a slash ends the name"
            ),
        ),
        (
            '[upstreams."ä"]\nbase_url = "https://host/v1"',
            'upstreams."ä": an upstream\'s name may contain only letters, digits, `.`, `_` and `-`',
        ),
        (
            UP + 'profile = "vlm"',
            "upstreams.up.profile: no profile `vlm`; did you mean `vllm` or `glm`?",
        ),
        (
            UP + 'profile = "mine1"\n[profiles.mine]',
            "upstreams.up.profile: no profile `mine1`; did you mean `mine`?",
        ),
        (
            UP + '[profiles.mine]\nbase = "vlm"',
            "profiles.mine.base: no profile `vlm`; did you mean `vllm` or `glm`?",
        ),
        (
            UP + "[profiles.mine]\nimage = true",
            "profiles.mine.image: unknown key; did you mean `images`?",
        ),
        (
            UP + '[profiles.mine]\nimages = "all"',
            'profiles.mine.images: expected one of `any`, `base64_only`, `none`, got the string "all"',
        ),
        (
            UP + "[profiles.mine]\nmax_stop_sequences = -1",
            "profiles.mine.max_stop_sequences: must be at least 0, not -1",
        ),
        (
            UP + "[profiles.kimi]",
            "profiles.kimi: there is a built-in profile `kimi`; choose another name",
        ),
        (
            UP + 'format = "kimi_k"',
            "upstreams.up.format: no tool-call format `kimi_k`; did you mean `kimi_k3` or `kimi_k2`?",
        ),
        (UP + 'format = ""', "upstreams.up.format: no tool-call format; write `auto` or `none`"),
        (
            UP + 'dialect = "openai"',
            (
                "upstreams.up.dialect: expected one of `anthropic`, `chat`, `gemini`, `responses`, "
                'got the string "openai"'
            ),
        ),
        # targets
        (
            ROUTE + 'to = "up"',
            (
                "routes[1].to[1]: `up` is not `upstream/model`; "
                "write `up/*` to keep the name that the client sent"
            ),
        ),
        (ROUTE + 'to = "up/"', "routes[1].to[1]: `up/` is not `upstream/model`"),
        (ROUTE + 'to = "/m"', "routes[1].to[1]: `/m` is not `upstream/model`"),
        (
            ROUTE + 'to = "up/*/*"',
            (
                "routes[1].to[1]: `up/*/*` has more than one `*`; "
                "only one can be replaced by the name that the client sent"
            ),
        ),
        (
            ROUTE + 'to = ["up/x", "upp/x"]',
            "routes[1].to[2]: there is no upstream `upp`; did you mean `up`?",
        ),
        (ROUTE + 'to = "zzz/x"', "routes[1].to[1]: there is no upstream `zzz`; there are `up`"),
        (
            '[[routes]]\nto = "zzz/x"',
            "routes[1].to[1]: there is no upstream `zzz`; add a table `[upstreams.NAME]`",
        ),
        (
            ROUTE + 'to = ["up/x", "up/y"]\nchoose = "random"',
            (
                "routes[1].choose: expected one of `in_order`, `least_busy`, `sticky`, `weighted`, "
                'got the string "random"'
            ),
        ),
        (
            ROUTE + 'to = ["up/x", "up/y"]\nchoose = "weighted"\nweights = [1]',
            "routes[1].weights: there are 2 targets in `to` and 1 weights; write one number for each target",
        ),
        (
            ROUTE + 'to = ["up/x", "up/y"]\nchoose = "sticky"\nweights = [0, 0]',
            "routes[1].weights: all weights are 0; a target of weight 0 is only a fallback",
        ),
        (
            ROUTE + 'to = ["up/x", "up/y"]\nweights = [2, 1]',
            (
                "routes[1].weights: never used: the targets are asked in order; "
                'write `choose = "weighted"`, "least_busy" or "sticky"'
            ),
        ),
        (UP + "queue_timeout = 0", "upstreams.up.queue_timeout: must be more than 0, not 0"),
        (
            UP + '[tiers]\nopus = ["no/x"]',
            "tiers.opus[1]: there is no upstream `no`; there are `up`",
        ),
        (
            ROUTE + 'to = "up/x"\nmatch = { model = "" }',
            "routes[1].match.model: an empty name matches nothing; write `*` to match every name",
        ),
        ('aliases.a = ""', "aliases.a: the value of an alias is the name of a model"),
        (
            'aliases."a*" = "*b*"',
            'aliases."a*": there is more than one `*`; only one can be replaced by the name that the client sent',
        ),
        # overrides
        (
            ROUTE + 'to = "up/x"\nparams = { temperatur = 1 }',
            "routes[1].params: `temperatur` is not a parameter; did you mean `temperature`?",
        ),
        # names that are taken
        (
            ROUTE
            + 'to = "up/x"\nname = "a"\n[[routes]]\nmatch.model = "b"\nto = "up/y"\nname = "a"',
            "routes[2].name: route 1 has the name `a` already",
        ),
        (
            ROUTE + 'to = "up/x"\nname = "route-2"\n[[routes]]\nmatch.model = "b"\nto = "up/y"',
            "routes[2].name: route 1 has the name `route-2` already",
        ),
        (
            'server.keys = ["env:GOOD", { key = "env:ALSO_GOOD", name = "b" }]',
            "server.keys[2].key: the same secret as key 1",
        ),
        # safety
        (
            'server.seal_key = "env:GOOD"',
            (
                "server.seal_key: must have at least 16 bytes, because anyone who guesses it can forge reasoning"
                " state; make one with `openssl rand -hex 32`"
            ),
        ),
        (
            'server.state = "env:GOOD"',
            "server.state: must be an address `redis://…` or `rediss://…`",
        ),
        ('server.state = "redis://user:word@127.0.0.1:6379"', "server.state: " + BARE),
        (
            'server.host = "0.0.0.0"',
            (
                "server.host: `0.0.0.0` can be reached from the network, and no key is required; "
                'under [server] set `keys = ["env:DRAGOMAN_KEY"]`, or `insecure = true` (--insecure) if everyone may use it'
            ),
        ),
        # files
        (UP + 'tls.ca = "no.pem"', "upstreams.up.tls.ca: there is no file /nowhere/no.pem"),
    ],
)
def test_a_mistake_is_one_line_with_its_path_and_what_to_do(text, expected):
    assert [expected] == mistakes(text)


def test_names_of_keys_must_differ():
    text = 'server.keys = ["env:GOOD", { key = "env:X", name = "key-1" }]'
    one = ConfigEnvironment(environ={"GOOD": "a", "X": "b"}, folder=Path("/"))

    with pytest.raises(
        ConfigMistakesError, match=r"server.keys\[2\].name: key 1 has the name `key-1` already"
    ):
        make_settings(tomllib.loads(text), one)


def test_a_private_key_needs_its_certificate(tmp_path):
    (tmp_path / "key.pem").touch()

    with pytest.raises(
        ConfigMistakesError, match=r"upstreams.up.tls.key: a private key without `cert`"
    ):
        make_settings(tomllib.loads(UP + 'tls.key = "key.pem"'), around(tmp_path))


def test_paths_are_resolved_beside_the_file(tmp_path):
    (tmp_path / "ca.pem").touch()
    text = UP + 'tls.ca = "ca.pem"\n[store]\npath = "state.db"'

    found = make_settings(tomllib.loads(text), around(tmp_path)).settings

    assert str(tmp_path / "ca.pem") == found.upstreams["up"].tls.ca
    assert str(tmp_path / "state.db") == found.store.path


def test_all_mistakes_come_at_once_and_none_twice():
    text = """
    prot = 3
    [server]
    host = "0.0.0.0"
    keys = ["sk-live-abc"]
    [upstreams.a]
    base_url = "https://host/v1/messages"
    [upstreams.b]
    [upstreams.c]
    base_url = 5
    profile = "nobody at all"
    [[routes]]
    to = ["a/x", "b/x", "c/x", "d/x"]
    [[routes]]
    match = 5
    """

    assert [line.partition(":")[0] for line in mistakes(text)] == [
        "prot",
        "server.keys[1].key",
        "upstreams.a.base_url",
        "upstreams.b.base_url",
        "upstreams.c.base_url",
        "routes[2].to",
        "routes[2].match",
        "upstreams.c.profile",
        "routes[1].to[4]",
    ]


def test_several_processes_are_refused_where_the_system_cannot_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "fork")
    monkeypatch.setattr(sys, "platform", "win32")
    expected = (
        "server.workers: processes cannot share a port on this system (win32); "
        "leave it at 1; for more, start several gateways on different ports"
    )

    assert [expected] == mistakes(f"server.workers = 2\n{UP}")
    assert [] == mistakes(f"server.workers = 1\n{UP}")


@pytest.mark.parametrize(
    ("workers", "kept", "warned"),
    [(1, "memory", False), (2, "memory", True), (2, "sqlite", False), (2, "off", False)],
)
def test_processes_that_share_no_memory_are_warned_of(
    workers: int, kept: str, warned: bool
) -> None:
    text = f'[server]\nworkers = {workers}\n[store]\nresponses = "{kept}"\n{UP}'
    expected = (
        "store.responses: each of 2 processes stores its own responses and does not find those of the others; "
        'set it to "sqlite", or to "off" if no client uses stored responses'
    )

    assert ([expected] if warned else []) == warnings(text)


TO = 'to = "up/x"\n'
VENDOR = '[upstreams.a]\nbase_url = "https://openrouter.ai/api/v1"\n'
NEEDS_KEY = (
    'upstreams.a.key: OpenRouter needs a key; write `key = "env:OPENROUTER_API_KEY"` and export '
    'OPENROUTER_API_KEY=…, or write `auth = "none"` if it needs none'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (VENDOR, [NEEDS_KEY]),
        (VENDOR + 'key = "env:GOOD"', []),
        (VENDOR + 'auth = "none"', []),
        (VENDOR + 'headers.Authorization = "env:GOOD"', []),
        (VENDOR + 'headers.x-team = "env:GOOD"', []),
        (VENDOR + 'headers.x-team = "blue"', [NEEDS_KEY]),
        (VENDOR + '[[routes]]\nto = "a/*"\nauth = "passthrough"', []),
        (VENDOR + '[[routes]]\nto = "a/*"\nheaders.x-api-key = "env:GOOD"', []),
        (VENDOR + '[[routes]]\nto = "a/*"', [NEEDS_KEY]),
        (
            VENDOR + '[[routes]]\nto = "a/*"\nauth = "passthrough"\n[tiers]\nopus = "a/x"',
            [NEEDS_KEY],
        ),
        (
            VENDOR + 'key = "env:GOOD"\nauth = "none"',
            ['upstreams.a.key: never sent, because of `auth = "none"`; remove one of them'],
        ),
    ],
)
def test_a_known_vendor_gets_a_key_or_states_that_it_needs_none(text, expected):
    assert expected == mistakes(text)


def routes(*matches: str) -> str:
    return UP + "".join(f"[[routes]]\n{TO}match = {{ {match} }}\n" for match in matches)


@pytest.mark.parametrize(
    ("earlier", "later", "covered"),
    [
        ('model = "*"', 'model = "a"', True),
        ("", 'model = "a", thinking = true', True),
        ('model = "claude-*"', 'model = "Claude-opus"', True),
        ('model = "claude-*"', 'model = "CLAUDE-*"', True),
        ('model = "claude-*"', 'model = "claude-*haiku*"', False),
        ('model = "a"', 'model = "*"', False),
        ("thinking = true", 'model = "a"', False),
        ("thinking = true", 'model = "a", thinking = true', True),
        ("thinking = true", "thinking = false", False),
        ("images = true", "images = true", True),
        ('dialect = "chat"', 'dialect = "anthropic"', False),
        ('server_tool = "web_search"', 'model = "a"', False),
        ('model = "a"', 'model = "a", server_tool = "web_fetch"', True),
        ('server_tool = "mcp"', 'server_tool = "web_fetch"', False),
        ("tokens_above = 5", "tokens_above = 9", True),
        ("tokens_above = 5", "tokens_above = 5", True),
        ("tokens_above = 9", "tokens_above = 5", False),
        ("tokens_above = 9", "", False),
        ('header = { X-A = "*" }', 'header = { x-a = "b" }', True),
        ('header = { X-A = "B" }', 'header = { x-a = "b" }', True),
        ('header = { X-A = "c" }', 'header = { x-a = "b" }', False),
        ('header = { X-A = "*" }', "", False),
    ],
)
def test_a_route_that_is_never_reached_is_warned_about(earlier, later, covered):
    expected = "routes[2]: never reached: route 1 matches everything that it matches; move it before that one"

    found = [one for one in warnings(routes(earlier, later)) if "server_tool" not in one]
    assert ([expected] if covered else []) == found


def test_the_route_that_takes_everything_is_named():
    text = routes("", 'model = "a"', 'model = "b"').replace(TO, TO + 'name = "all"\n', 1)

    assert [line.partition(";")[0] for line in warnings(text)] == [
        "routes[2]: never reached: route 1 (`all`) matches everything that it matches",
        "routes[3]: never reached: route 1 (`all`) matches everything that it matches",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (UP, []),
        ("", []),
        (
            UP + '[server]\nhost = "::"\ninsecure = true',
            ["server.insecure: everyone who reaches `::` may use your keys"],
        ),
        (UP + '[server]\nhost = "::"\ninsecure = true\nkeys = "env:GOOD"', []),
        (
            routes("") + '[tiers]\nopus = "up/x"',
            ["tiers: never reached: route 1 matches every model, and routes are checked first"],
        ),
        (routes("thinking = true") + '[tiers]\nopus = "up/x"', []),
        (
            UP + '[aliases]\na = "B"\nb = "up/x"\nc = "C"',
            ['aliases."a": `B` is an alias too, and aliases are resolved only once'],
        ),
        (
            '[upstreams.a]\nbase_url = "https://api.anthropic.com"\nkey = "env:GOOD"',
            [
                (
                    "upstreams.a.base_url: this address of Anthropic has no path; "
                    "`https://api.anthropic.com/v1` is the usual one"
                )
            ],
        ),
        ('[upstreams.a]\nbase_url = "https://api.deepseek.com"\nkey = "env:GOOD"', []),
        (
            '[upstreams.a]\nbase_url = "http://host.example/v1"\nkey = "env:GOOD"',
            [
                (
                    "upstreams.a.base_url: the key is sent unencrypted; "
                    "write `https://…` if the server supports it"
                )
            ],
        ),
        *(
            (f'[upstreams.a]\nbase_url = "http://{host}/v1"\nkey = "env:GOOD"', [])
            for host in ("localhost", "10.0.0.1", "[::1]", "litellm", "gpu.lan", "127.0.0.1")
        ),
        (
            UP + "tls.verify = false",
            [
                (
                    "upstreams.up.tls.verify: anyone on the network path can read the key and "
                    "change responses; set `ca` to the authority's file instead"
                )
            ],
        ),
        (
            UP + "max_queue = 5",
            [
                "upstreams.up.max_queue: has no effect without a limit of concurrent requests; set `max_concurrent`"
            ],
        ),
        (UP + "max_concurrent = 2\nmax_queue = 5", []),
        (
            UP + '[server]\nkeys = [{ key = "env:GOOD", max_queue = 1 }]',
            [
                "server.keys[1].max_queue: has no effect without a limit of concurrent requests; set `concurrent`"
            ],
        ),
        (
            '[upstreams.a]\nbase_url = "http://host/v1"\ntls.verify = false',
            ["upstreams.a.tls: has no effect: the address begins with `http://`"],
        ),
    ],
)
def test_what_is_probably_not_meant_is_warned_about(text, expected):
    assert expected == warnings(text)


# --- prices and budgets ---

PRICE = "input = 0.6\noutput = 2.5\n"
KEYS = '[[server.keys]]\nkey = "env:GOOD"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (UP + f'[[prices]]\nmodel = "up/*"\n{PRICE}', []),
        (
            UP + f'[[prices]]\nmodel = "upp/*"\n{PRICE}',
            ["prices[1].model: never used: there is no upstream `upp`; did you mean `up`?"],
        ),
        (
            UP + f'[[prices]]\nmodel = "gpt-5"\n{PRICE}',
            ["prices[1].model: never used: there is no upstream `gpt-5`; write `*/gpt-5` for every upstream"],
        ),
        (
            UP + f'[[prices]]\nmodel = "up/*"\n{PRICE}[[prices]]\nmodel = "up/x"\n{PRICE}',
            ["prices[2].model: never used: price 1 (`up/*`) matches everything that it matches; move it before that one"],
        ),
        (
            UP + KEYS + "budget_day = 1.5",
            ["server.keys[1].budget_day: counts only responses whose upstream reports a cost; add `[[prices]]` for the others"],
        ),
        (UP + KEYS + f'budget_day = 1\n[[prices]]\nmodel = "*"\n{PRICE}', []),
        (
            UP + KEYS + f'budget_month = 1\n[[prices]]\nmodel = "*"\n{PRICE}',
            ["server.keys[1].budget_month: a restart of the gateway forgets what was spent; set `server.state` to keep it in Redis"],
        ),
    ],
)  # fmt: skip
def test_prices_and_budgets_that_have_no_effect_are_warned_about(text, expected):
    assert expected == warnings(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[[prices]]\nmodel = "*"\noutput = 1', "prices[1].input: missing"),
        (f'[[prices]]\nmodel = "*"\n{PRICE}inputs = 1', "prices[1].inputs: unknown key; did you mean `input`?"),
        (f'[[prices]]\nmodel = "*"\n{PRICE}cache_write = -1', "prices[1].cache_write: must be at least 0, not -1"),
        ('[[prices]]\nmodel = "*"\ninput = "$3"\noutput = 1', 'prices[1].input: expected a number, got the string "$3"'),
        (KEYS + "budget_day = 2_000_000", "server.keys[1].budget_day: must be at most 1000000, not 2000000"),
    ],
)  # fmt: skip
def test_wrong_prices_and_budgets_are_named_with_their_path(text, expected):
    assert [expected] == mistakes(UP + text)


@pytest.mark.parametrize(
    ("upstream", "target", "warned"),
    [
        ('dialect = "chat"', "up/glm-4.7", True),
        ('dialect = "chat"', "up/*", True),
        ('dialect = "anthropic"', "up/glm-4.7", True),
        ('dialect = "anthropic"', "up/claude-haiku-4-5", False),
        ('dialect = "anthropic"', "up/*", False),
        ('dialect = "chat"\nprofile = "openrouter"', "up/glm-4.7", False),
        ('dialect = "chat"\nprofile = "openai"', "up/gpt-5.2", True),
        ('dialect = "chat"\nprofile = "openai"', "up/gpt-5-search-api", False),
        ('dialect = "chat"\nprofile = "openai"', "up/*", False),
        ('dialect = "responses"\nprofile = "openai"', "up/gpt-5.2", False),
    ],
)
def test_a_route_for_a_tool_that_no_target_runs_is_warned_about(upstream, target, warned):
    text = f'{UP}{upstream}\n[[routes]]\nto = "{target}"\nmatch = {{ server_tool = "web_search" }}'
    expected = (
        "routes[1].match.server_tool: no target of the route is known to run `web_search`: requests that need it "
        "are refused; choose an upstream that runs it, or set `profile` of one"
    )

    assert ([expected] if warned else []) == warnings(text)


@pytest.mark.parametrize(
    "line", ["max_requests = 101", "max_requests = -1", "max_seconds = -1", "max_tokens = 0.5"]
)
def test_bounds_of_paused_answers_are_checked(line: str) -> None:
    key = line.partition(" ")[0]
    (found,) = mistakes(f"{UP}[continuations]\n{line}\n")

    assert found.startswith(f"continuations.{key}: ")


def test_paused_answers_are_bounded_unless_the_settings_ask_otherwise() -> None:
    made = make_settings(tomllib.loads(f"{UP}[continuations]\nmax_requests = 2\n"), around())

    assert (2, 600.0, 1_000_000) == (
        made.settings.continuations.max_requests,
        made.settings.continuations.max_seconds,
        made.settings.continuations.max_tokens,
    )
