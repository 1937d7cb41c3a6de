"""Single texts of the settings: taken as they are meant, or refused with what to write instead."""

from pathlib import Path

import pytest

from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.settings import TextKind
from dragoman.gateway.config.texts import check_text

AROUND = ConfigEnvironment(environ={}, folder=Path("/nowhere"))


@pytest.mark.parametrize(
    ("kind", "text", "meant"),
    [
        ("address", "https://host/v1/", "https://host/v1"),
        ("address", " http://[::1]:80/v1 ", "http://[::1]:80/v1"),
        ("address", "HTTP://host", "http://host"),
        ("format", "Qwen25", "hermes"),
        ("format", "gpt-oss", "gpt_oss"),
        ("format", "mine", "mine"),
        ("format", "standard", "standard"),
        ("glob", "[a]*", "[a]*"),
        ("header", "X-Team", "X-Team"),
        ("host", " 0.0.0.0 ", "0.0.0.0"),
        ("host", "::1", "::1"),
        ("meaning", "openrouter/*", "openrouter/*"),
        ("name", "my.up_1-a", "my.up_1-a"),
        ("origin", "HTTP://Host:3000/", "http://host:3000"),
        ("place", ":memory:", ":memory:"),
        ("place", "", ""),
        ("file", "", ""),
        ("built_in", "Kimi", "kimi"),
        ("built_in", "", ""),
        ("profile", " My-Own ", "my-own"),
        ("own_profile", "My-Own", "my-own"),
        ("target", "up/a/b:c", "up/a/b:c"),
    ],
)
def test_good_texts_are_taken_as_they_are_meant(kind: TextKind, text, meant):
    assert meant == check_text(kind, text, AROUND)


@pytest.mark.parametrize(
    ("kind", "text", "suggestion"),
    [
        ("address", "openrouter.ai/api/v1", "write `https://openrouter.ai/api/v1`"),
        ("address", "localhost:8000/v1", "write `http://localhost:8000/v1`"),
        ("address", "127.0.0.1:8000", "write `http://127.0.0.1:8000`"),
        ("address", "ftp://host", "write `http://…` or `https://…`"),
        ("address", "", "write `https://`"),
        ("address", "https://", ""),
        ("address", "https:///v1", ""),
        ("address", "https://me:pw@host/v1", 'write the key as `key = "env:NAME"`'),
        ("address", "https://host/v1?key=5", ""),
        ("address", "https://host/v1#x", ""),
        ("address", "https://ho st/v1", ""),
        ("address", "https://host:99999/v1", ""),
        ("address", "https://[::1/v1", ""),
        ("address", "https://host/v1/chat/completions", "write `https://host/v1`"),
        ("address", "https://host/v1/chat/completions/", "write `https://host/v1`"),
        ("address", "https://host/v1/messages", "write `https://host/v1`"),
        ("address", "https://host/v1/responses", "write `https://host/v1`"),
        ("file", "a\0b", ""),
        ("place", "a\0b", ""),
        ("host", "", "write `127.0.0.1`, or `0.0.0.0` for every network"),
        ("host", "http://host:80", "write `host`"),
        ("host", "http://[::1]:80", ""),
        ("host", "a/b", ""),
        ("host", "a b", ""),
        ("origin", "*", "name the pages' origins"),
        ("origin", "host", "write `https://host` or `http://host:port`"),
        ("origin", "https://host/page", "write `https://host`"),
        ("origin", "https://[::1", ""),
    ],
)
def test_bad_texts_are_reported_with_what_to_write(kind: TextKind, text, suggestion):
    found = check_text(kind, text, AROUND)

    assert not isinstance(found, str)
    assert suggestion == found.suggestion
    assert "pw" not in found.message


def test_an_unknown_name_that_is_near_nothing_lists_all():
    found = check_text("built_in", "zzzzzz", AROUND)

    assert found.suggestion.startswith("there are anthropic, anthropic-budget, deepseek")
