"""The endpoints that count tokens: asked from the upstream where it can tell, else estimated and said so."""

import asyncio
from typing import Final

from aiohttp import web
from yarl import URL

from dragoman.errors import MalformedError, UntranslatableError
from dragoman.gateway import counting
from dragoman.gateway.accept import read_client
from dragoman.gateway.admission import admit
from dragoman.gateway.call import Call
from dragoman.gateway.counting import Question
from dragoman.gateway.fault_replies import JsonResponse, refused
from dragoman.gateway.headers import answer_headers
from dragoman.gateway.plan import extra_fields, upstream_headers
from dragoman.gateway.routing import Choice, Hop
from dragoman.translate_requests import ClientRequest, write_request
from dragoman.transport import TransportError
from dragoman.turn.events import Fault, FaultKind

_SECONDS: Final = 10.0  # an estimate now is worth more than a count later
_MAX_BYTES: Final = 64 * 1024 * 1024  # a tokenizer lists every token


async def count_tokens(call: Call) -> web.Response:
    """Tell a client how many tokens its request has."""
    client, _ = await read_client(call)
    admitted = await admit(call, client)
    if isinstance(admitted, Fault):
        return refused(call, admitted)
    choice = admitted.choice
    hop = choice.hops[0]
    way = counting.way_of(hop.upstream, hop.profile.name)
    if way == "off":
        said = "tokens are not counted here; the client may estimate them itself"
        return refused(call, Fault(FaultKind.NOT_FOUND, said, status=404))
    counted = None if way == "estimate" else await _counted(call, client, choice, hop, way)
    call.leave(0)  # a count is a request, and generates no tokens
    headers = answer_headers(
        call.id, route=choice.route_name, upstream_model=hop.model, extra=call.cors
    )
    if counted is None:
        headers |= counting.ESTIMATED
    body = counting.count_body(call.dialect, counted or admitted.estimate)
    return JsonResponse(body, headers=headers)


async def _counted(
    call: Call, client: ClientRequest, choice: Choice, hop: Hop, way: counting.Way
) -> int | None:
    """Return what the upstream counts; None if it does not tell, for whatever reason."""
    upstream = hop.upstream
    try:
        written = await call.runtime.heavy.run(
            len(client.body),
            lambda: write_request(
                client, target=upstream.dialect, profile=hop.profile, model=hop.model
            ),
        )
    except (MalformedError, UntranslatableError):
        return None
    body = extra_fields(hop, choice.route, written.body)
    try:
        async with asyncio.timeout(_SECONDS):
            if way == "upstream":
                question = counting.count_question(upstream.dialect, body)
                return None if question is None else await _ask(call, choice, hop, question)
            return await _tokenized(call, choice, hop, body)
    except (TimeoutError, TransportError):
        return None


async def _tokenized(call: Call, choice: Choice, hop: Hop, body: bytes) -> int | None:
    """Ask a server's tokenizer: first for all at once, then for the prompt and its tokens."""
    count = await _ask(call, choice, hop, counting.tokenize_question(body), root=True)
    if count is not None:
        return count
    answer = await _answer(call, choice, hop, counting.template_question(body), root=True)
    prompt = counting.read_prompt(answer)
    if prompt is None:
        return None
    return await _ask(call, choice, hop, counting.prompt_question(prompt), root=True)


async def _ask(
    call: Call, choice: Choice, hop: Hop, question: Question, *, root: bool = False
) -> int | None:
    answer = await _answer(call, choice, hop, question, root=root)
    return await call.runtime.heavy.run(len(answer), lambda: counting.read_count(answer))


async def _answer(call: Call, choice: Choice, hop: Hop, question: Question, *, root: bool) -> bytes:
    """Return what an upstream says to a question; nothing, if it does not understand it."""
    upstream = hop.upstream
    base = counting.server_root(upstream.base_url) if root else upstream.base_url.rstrip("/")
    same = upstream.dialect == call.dialect
    reply = await call.runtime.connector.open(
        "POST",
        URL(base + question.path),
        headers=upstream_headers(hop, choice.route, call.http.headers, same_dialect=same),
        body=question.body,
        connect_seconds=hop.timeouts.connect,
        tls=call.plan.tls(hop.upstream_name),
    )
    async with reply:
        if reply.status != 200:
            return b""
        return await reply.read_all(_MAX_BYTES, lambda: None) or b""
