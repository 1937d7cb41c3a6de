"""Secrets that are known, and text that looks like one, are never revealed."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.redaction import MAX_CHARS, REDACTED, Blotter, redact


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "Incorrect API key provided: sk-proj-a1B2c3D4e5F6.",
            f"Incorrect API key provided: {REDACTED}",
        ),
        ("Incorrect API key provided: abcdef123.", f"Incorrect API key provided: {REDACTED}"),
        ("key sk-ant-api03-AAAA_bbbb-cccc is bad", f"key {REDACTED} is bad"),
        ("sk-or-v1-0123456789abcdef", REDACTED),
        ("sk-abc***********xyz", REDACTED),
        ("Authorization: Bearer abc.def-123", f"Authorization: Bearer {REDACTED}"),
        ("authorization: bearer  abc.def-123 x", f"authorization: bearer  {REDACTED} x"),
        ('{"x-api-key": "0123456789"}', f'{{"x-api-key": "{REDACTED}"}}'),
        ("api_key=0123456789&q=1", f"api_key={REDACTED}&q=1"),
        ("https://user:passw0rd@host/v1", f"https://{REDACTED}@host/v1"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", REDACTED),
        ("token AIzaSyA0123456789abcdefghijklmnopq!", f"token {REDACTED}!"),
        ("gsk_0123456789ab hf_0123456789ab xai-0123456789ab", " ".join([REDACTED] * 3)),
        # What only looks a little like it stays.
        ("You must send Bearer authentication", "You must send Bearer authentication"),
        ("a task-specific-model-name", "a task-specific-model-name"),
        ("sk-learn", "sk-learn"),
        ("xai-org/grok-2", "xai-org/grok-2"),
        ("moonshotai/kimi-k2-thinking", "moonshotai/kimi-k2-thinking"),
        ("max_tokens=100000", "max_tokens=100000"),
        ("the api key is missing", "the api key is missing"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("", ""),
    ],
)
def test_what_looks_like_a_credential_is_taken_out(text: str, left: str) -> None:
    assert left == redact(text)


def test_known_secrets_are_taken_out_wherever_they_stand() -> None:
    secrets = ("correct horse battery", "correct horse battery staple", "a.b*c(d)+e")

    text = redact("x=correct horse battery staple;y=correct horse battery:za.b*c(d)+ez", secrets)

    assert f"x={REDACTED};y={REDACTED}:z{REDACTED}z" == text


def test_a_short_secret_is_taken_out_as_a_word_of_its_own() -> None:
    assert f"key {REDACTED}, xylophone" == redact("key x, xylophone", ("x", ""))


@given(
    secret=st.text(min_size=8, max_size=40),
    before=st.text(max_size=40),
    after=st.text(max_size=40),
)
def test_no_text_brings_a_secret_through(secret: str, before: str, after: str) -> None:
    redacted = redact(f"{before}{secret}{after}", (secret,))

    assert secret not in redacted or secret in REDACTED


@pytest.mark.parametrize(
    "piece", ["password ", "bearer \t", "://a:", "sk-", "eyJ", "api key provided ", "secret:'"]
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    text = piece * 20_000 + " " * 200_000

    started = time.perf_counter()
    redact(text)

    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("shift", range(0, 40, 3))
def test_a_long_text_is_cut_and_no_half_of_a_secret_stays(shift: int) -> None:
    secret = "not-like-any-vendor's-key-but-secret"
    text = "x" * (MAX_CHARS - shift) + secret + "y" * MAX_CHARS

    shown = redact(text, (secret, "short"))

    assert len(shown) <= MAX_CHARS + len(REDACTED)
    assert shown.endswith("…")
    assert "not-" not in shown


def test_beginnings_of_tokens_are_taken_out_at_once() -> None:
    began = time.process_time()

    assert "eyJ" not in redact("-eyJ" * 1_000_000)
    assert time.process_time() - began < 10


# --- bytes of any length ----------------------------------------------------------------------------------

KNOWN = ("known-secret-of-many-letters", 'with "quotes" and {braces}', "schlüssel-mit-umlaut")
CREDENTIALS = (
    "sk-0123456789", "sk_0123456789", "gsk_0123456789", "xai-0123456789", "pplx-0123456789", "nvapi-0123456789",
    "fw_0123456789", "tgp_0123456789", "r8_0123456789", "hf_0123456789", "gho_0123456789", "ghp_0123456789",
    "ghs_0123456789", "GHU_0123456789", "github_pat_0123456789", "glpat-0123456789", "xoxb-0123456789",
    "AIzaSyA0123456789abcdefgh", "AKIA0123456789AB", "eyJhbGciOiJI", "Bearer abc.def-123", "basic 0123456789",
    'x-api-key": "0123456789', "api key: 0123456789", "access_token=0123456789", "auth-token:0123456789",
    "Authorization: 0123456789", "client_secret=0123456789", "password = 0123456789", "secret:0123456789",
    "https://user:pass{w}0rd@host", r"https:\/\/user:pass{w}0rd@host",
)  # fmt: skip


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_every_kind_of_credential_is_overwritten_in_bytes(credential: str) -> None:
    data = f'{{"a":{{"text":"{credential}"}},"b":[{{}}]}}'.encode()
    blotter = Blotter(())
    blotted = blotter.blot(data)
    assert len(data) == len(blotted)
    assert b"***" in blotted
    assert blotted == blotter.blot(data)  # from memory


@pytest.mark.parametrize(
    "text",
    [
        '{"home":"https://example.com","mail":"joe@example.com"}',
        r'{"arguments":"{\"home\":\"https://example.com\",\"mail\":\"joe@example.com\"}"}',
        '[{"text":"ssh://","logprobs":null},{"text":"git","logprobs":null},{"text":"@host"}]',
    ],
)
def test_no_password_goes_on_in_the_next_string_of_json(text: str) -> None:
    assert text.encode() == Blotter(()).blot(text.encode())
    assert text == redact(text)


@pytest.mark.parametrize("secret", KNOWN)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_known_secret_is_overwritten_however_json_escapes_it(
    secret: str, ascii_only: bool
) -> None:
    text = json.dumps([{"text": f"it is {secret}."}], ensure_ascii=ascii_only)
    blotted = Blotter(KNOWN).blot(text.encode())
    assert len(text.encode()) == len(blotted)
    words = json.loads(blotted)[0]["text"]
    assert words.startswith("it is *")
    assert secret not in words


@given(
    st.lists(
        st.sampled_from((*CREDENTIALS, *KNOWN, "{", "}", " ", '","', "plain", "api")), max_size=12
    )
)
def test_what_was_seen_before_changes_nothing(parts: list[str]) -> None:
    used = Blotter(KNOWN)
    for part in (*CREDENTIALS, *parts):
        used.blot(f"{{{part}{{".encode())
    data = "".join(parts).encode()
    assert Blotter(KNOWN).blot(data) == used.blot(data)


def test_a_secret_is_found_again_after_the_memory_was_full() -> None:
    blotter = Blotter(KNOWN)
    data = b'{"text":"sk-0123456789"}{"text":"plain"}'
    first = blotter.blot(data)
    for at in range(6):
        blotter.blot(b"%d" % at * 1024 * 1024)
    assert first == blotter.blot(data)


@given(
    st.lists(
        st.sampled_from(
            (
                *CREDENTIALS,
                *KNOWN,
                "{",
                "}",
                " ",
                '","',
                "plain",
                "api",
                "\n",
                "\\",
                "\x1f",
                "\u00e9",
            )
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_bytes_are_escaped_as_json_writes_them_without_their_secrets(
    parts: list[str], has_braces: bool
) -> None:
    blotter = Blotter(KNOWN if has_braces else KNOWN[::2])
    data = "".join(parts).encode()
    for _ in range(2):  # the second time from memory
        assert json.loads(b'"%b"' % blotter.blot_escaped(data)).encode() == blotter.blot(data)


def test_bytes_that_are_not_utf8_are_not_escaped() -> None:
    blotter = Blotter(())
    for _ in range(2):
        with pytest.raises(UnicodeDecodeError):
            blotter.blot_escaped(b"{plain{\xff{")
    assert b"plain" == blotter.blot_escaped(b"plain")
