"""The small endpoints beside the three that answer: models, token counts, kept responses."""

import asyncio
from typing import Final

import msgspec
from aiohttp import web

from dragoman.errors import PeerError
from dragoman.gateway import counting
from dragoman.gateway.body import read_body
from dragoman.gateway.call import Call
from dragoman.gateway.models import find_model, model_list
from dragoman.gateway.plan import upstream_headers
from dragoman.gateway.replies import refused
from dragoman.gateway.reqids import answer_headers
from dragoman.gateway.responses_state import not_found, page_of
from dragoman.gateway.routing import Choice, Hop, Question
from dragoman.gateway.upstream import UpstreamFailed
from dragoman.requests import ClientRequest, read_request, write_request
from dragoman.turn.events import Fault, FaultKind

_COUNT_SECONDS: Final = 10.0  # an estimate at once is worth more than a count later
_MAX_ANSWER: Final = 1024 * 1024


async def nothing(call: Call) -> web.Response:
    """Answer what an agent asks on the side, and has no need of."""
    await read_body(call.http, call.plan.settings.server.limits.max_request_bytes)
    return web.json_response({})


def _json(call: Call, body: bytes, **headers: str) -> web.Response:
    extra = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(
        body=body,
        content_type="application/json",
        headers=answer_headers(call.id) | extra,
    )
