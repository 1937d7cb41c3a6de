"""How many tokens a request has (`count_tokens`): asked from the upstream if it can count, else estimated.

| Upstream | Where it is asked | With |
|---|---|---|
| a dialect that can count | `Dialect.count_tokens` | the request, without fields that do not count |
| vLLM | `/tokenize` of the server | messages and tools |
| llama-server | `/apply-template`, then `/tokenize` of the server | messages and tools, then the prompt made of them |

Questions are made from the request's body in the upstream's dialect.  A response without a count, or with 0, is
ignored.  The estimate learns, for each model, from the counts that upstreams report; processes that share state
learn from each other.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct
from yarl import URL

from dragoman.dialects import dialect
from dragoman.dialects.decoding import decode
from dragoman.dialects.dialect import TokenCounting
from dragoman.dialects.encoding import encode
from dragoman.errors import MalformedError, UntranslatableError
from dragoman.gateway.config.settings import Route, Upstream
from dragoman.gateway.heavy import HeavyWork
from dragoman.gateway.plan import Plan, extra_fields, upstream_headers
from dragoman.gateway.routing import Hop
from dragoman.gateway.state.notes import note_name
from dragoman.profiles.profile import Profile
from dragoman.translate_requests import ClientRequest, write_request
from dragoman.transport import Connector, TransportError

ESTIMATED: Final = {"x-dragoman-token-count": "estimated"}  # goes with every estimate
_SECONDS: Final = 10.0  # an estimate now is worth more than a count later
_MAX_BYTES: Final = 64 * 1024 * 1024  # a tokenizer lists every token

# --- the estimate ---

_FIRST_RATIO: Final = 1.1  # a little too much is safer than too little
_WEIGHT: Final = 0.1  # of the newest report
_LEAST, _MOST = 0.5, 3.0  # beyond these, a report is about something else
_MAX_MODELS: Final = 256


class Calibration:
    """What reports have taught about the estimate, for each model.  The least recent are forgotten."""

    def __init__(self, max_models: int = _MAX_MODELS) -> None:
        self._max_models = max_models
        self._ratios: OrderedDict[str, float] = OrderedDict()
        # Models that other processes may know or want to know.
        self._used: set[str] = set()
        self._learned: set[str] = set()
        self._asked: dict[str, str] = {}  # by the names of notes

    def ratio(self, model: str) -> float:
        """Return how many tokens a model counts for one that is estimated."""
        if len(self._used) < self._max_models:
            self._used.add(model)
        return self._ratios.get(model, _FIRST_RATIO)

    def corrected(self, model: str, estimated: int) -> int:
        """Return about how many tokens a model counts where so many are estimated: never 0."""
        return max(1, math.ceil(estimated * self.ratio(model)))

    def learn(self, model: str, estimated: int, reported: int) -> None:
        """Take in how many input tokens, cached ones included, an upstream reported for a request."""
        if reported <= 0:
            return
        seen = min(_MOST, max(_LEAST, reported / estimated))
        ratio = self.ratio(model)
        self._set(model, ratio + _WEIGHT * (seen - ratio))
        if len(self._learned) < self._max_models:
            self._learned.add(model)

    def _set(self, model: str, ratio: float) -> None:
        self._ratios[model] = ratio
        self._ratios.move_to_end(model)
        if len(self._ratios) > self._max_models:
            self._ratios.popitem(last=False)

    # --- other processes ---

    def news(self) -> dict[str, bytes]:
        """Return what was learned since the last call, by the names of notes."""
        learned, self._learned = self._learned, set()
        known = ((model, self._ratios.get(model)) for model in learned)
        return {_note_name(model): b"%.6f" % ratio for model, ratio in known if ratio is not None}

    def wanted(self) -> list[str]:
        """Return the names of what was used since the last call."""
        used, self._used = self._used, set()
        self._asked = {_note_name(model): model for model in used}
        return list(self._asked)

    def adopt(self, name: str, value: bytes) -> None:
        """Take over what another process has learned."""
        model = self._asked.get(name)
        with suppress(ValueError):  # of another version
            ratio = float(value)
            if model is not None and _LEAST <= ratio <= _MOST:
                self._set(model, ratio)


def _note_name(model: str) -> str:
    return note_name("ratio", model)


# --- questions to the upstream ---

Way: TypeAlias = Literal["upstream", "tokenize", "estimate", "off"]

# Servers with a tokenizer that knows the model's template.
_TOKENIZING: Final = frozenset({"vllm", "llama-server"})
_TEMPLATED: Final = frozenset({"model", "messages", "tools", "chat_template_kwargs"})

TOKENIZE_PATH: Final = "/tokenize"
TEMPLATE_PATH: Final = "/apply-template"

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_TRUE: Final = Raw(b"true")


class Question(Struct, frozen=True):
    """One request to an upstream."""

    path: str
    body: bytes
    count_field: str = "count"  # of the answer; vLLM's, if no dialect names one
    of_server: bool = False  # the path follows `server_root` instead of the base URL


def way_of(upstream: Upstream, profile: str) -> Way:
    """Return how tokens are counted at an upstream, by its settings, else by its dialect and profile."""
    if upstream.count_tokens != "auto":
        can_ask = (
            upstream.count_tokens != "upstream"
            or dialect(upstream.dialect).count_tokens is not None
        )
        return upstream.count_tokens if can_ask else "estimate"
    if dialect(upstream.dialect).count_tokens is not None:
        return "upstream"
    return "tokenize" if profile in _TOKENIZING else "estimate"


def count_question(counting: TokenCounting, body: bytes, profile: Profile) -> Question:
    """Return the question to an upstream whose dialect can count."""
    if counting.question is not None:
        path, asked = counting.question(body, profile)
        return Question(path, asked, counting.count_field)
    return Question(counting.path, _only(body, counting.fields), counting.count_field)


def tokenize_question(body: bytes) -> Question:
    """Return how to ask vLLM for the tokens of a Chat request."""
    return Question(
        TOKENIZE_PATH, _only(body, _TEMPLATED, add_generation_prompt=_TRUE), of_server=True
    )


def template_question(body: bytes) -> Question:
    """Return how to ask llama-server for the prompt that a Chat request becomes."""
    return Question(TEMPLATE_PATH, _only(body, _TEMPLATED), of_server=True)


def prompt_question(prompt: str) -> Question:
    """Return how to ask llama-server for the tokens of a prompt, marks of its template included."""
    body = {"content": prompt, "add_special": True, "parse_special": True}
    return Question(TOKENIZE_PATH, msgspec.json.encode(body), of_server=True)


def server_root(base_url: str) -> str:
    """Return the root for a server's endpoints outside its API: the base URL without `/v1`."""
    return base_url.rstrip("/").removesuffix("/v1")


def _only(body: bytes, fields: Collection[str], **more: Raw) -> bytes:
    kept = {name: raw for name, raw in decode(_FIELDS, body).items() if name in fields}
    return encode(kept | more)


# --- the upstream's responses ---


class _Prompt(Struct):
    prompt: str | None = None


_COUNT: Final = msgspec.json.Decoder(int)
_TOKENS: Final = msgspec.json.Decoder(list[Raw])
_PROMPT: Final = msgspec.json.Decoder(_Prompt)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_count(answer: bytes, field: str) -> int | None:
    """Return the count in a field of an answer, else the length of its list of tokens; None if it has neither."""
    try:
        found = _FIELDS.decode(answer)
        if field in found:
            tokens = _COUNT.decode(found[field])
        else:
            tokens = len(_TOKENS.decode(found.get("tokens", b"[]")))
    except _UNREADABLE:
        return None
    # Test: test_h3_an_answer_counts_only_if_it_has_a_count.
    # llama-server answers a question meant for vLLM with an empty list.
    return tokens if tokens > 0 else None


def read_prompt(answer: bytes) -> str | None:
    """Return the prompt in the answer to `template_question`; None if it has none."""
    try:
        return _PROMPT.decode(answer).prompt or None
    except _UNREADABLE:
        return None


# --- asking ---


@dataclass(frozen=True)
class TokenCounter:
    """Asks one upstream for the tokens of one request."""

    connector: Connector
    heavy: HeavyWork
    plan: Plan
    hop: Hop
    route: Route
    client_headers: Mapping[str, str]

    async def count(self, client: ClientRequest, way: Way) -> int | None:
        """Return the upstream's count; None if it sends none, for whatever reason."""
        hop = self.hop
        try:
            written = await self.heavy.run(
                len(client.body),
                lambda: write_request(
                    client, target=hop.upstream.dialect, profile=hop.profile, model=hop.model
                ),
            )
        except (MalformedError, UntranslatableError):
            return None
        body = extra_fields(hop, self.route, written.body)
        same = hop.upstream.dialect == client.request.dialect
        headers = upstream_headers(
            hop,
            self.route,
            self.client_headers,
            same_dialect=same,
            body=b"" if same else written.body,
        )
        try:
            async with asyncio.timeout(_SECONDS):
                if way == "upstream":
                    counting = dialect(hop.upstream.dialect).count_tokens
                    if counting is None:
                        return None
                    question = count_question(counting, body, hop.profile)
                    return await self._ask(question, headers)
                return await self._tokenized(body, headers)
        except (TimeoutError, TransportError):
            return None

    async def _tokenized(self, body: bytes, headers: dict[str, str]) -> int | None:
        """Ask a server's tokenizer: first for all at once, then for the prompt and its tokens."""
        count = await self._ask(tokenize_question(body), headers)
        if count is not None:
            return count
        prompt = read_prompt(await self._response(template_question(body), headers))
        return None if prompt is None else await self._ask(prompt_question(prompt), headers)

    async def _ask(self, question: Question, headers: dict[str, str]) -> int | None:
        response = await self._response(question, headers)
        return await self.heavy.run(
            len(response), lambda: read_count(response, question.count_field)
        )

    async def _response(self, question: Question, headers: dict[str, str]) -> bytes:
        """Return the upstream's response; nothing, if it does not know the question."""
        hop = self.hop
        base = hop.upstream.base_url
        base = server_root(base) if question.of_server else base.rstrip("/")
        reply = await self.connector.open(
            "POST",
            URL(base + question.path),
            headers=headers,
            body=question.body,
            connect_seconds=hop.timeouts.connect,
            tls=self.plan.tls(hop.upstream_name),
            proxy=self.plan.proxy(hop.upstream_name),
        )
        with reply:
            if reply.status != 200:
                return b""
            return await reply.read_all(_MAX_BYTES, lambda: None) or b""
