"""The list of models: asked from the upstreams, kept for a while, and written in one shape that all SDKs read."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct, structs

from dragoman.dialects import DEFAULT_DIALECT, dialect
from dragoman.dialects.dialect import ListedModel
from dragoman.dialects.failures import html_fault
from dragoman.dialects.model_lists import read_model_list
from dragoman.gateway.config.settings import Route
from dragoman.gateway.plan import Plan, upstream_headers
from dragoman.gateway.retry import fault_of_transport
from dragoman.gateway.routing import Hop, Listed
from dragoman.transport import Connector, TransportError
from dragoman.turn.events import Fault, FaultKind

# --- asked from the upstreams ---


_KEPT_SECONDS: Final = 300.0
_FAILED_SECONDS: Final = 5.0  # until an upstream that did not answer is asked again
_ASK_SECONDS: Final = 5.0
_MAX_BYTES: Final = 8 * 1024 * 1024
_MAX_MODELS: Final = 2000  # of one upstream
_ROUTE: Final = Route(to=())  # what headers a question needs does not depend on a route


_NEVER: Final[tuple[float, list[str]]] = (-math.inf, [])


async def ask_models(
    connector: Connector, plan: Plan, hop: Hop, *, seconds: float = _ASK_SECONDS
) -> list[str] | Fault:
    """Return the names of an upstream's models, or why there is no list."""
    name, lists = hop.upstream_name, dialect(hop.upstream.dialect).model_lists
    try:
        async with asyncio.timeout(seconds):
            reply = await connector.open(
                "GET",
                plan.url(name, "/models" if lists is None else lists.path),
                headers=upstream_headers(hop, _ROUTE, {}, same_dialect=False),
                body=None,
                connect_seconds=hop.timeouts.connect,
                tls=plan.tls(name),
                proxy=plan.proxy(name),
            )
            with reply:
                body = await reply.read_all(_MAX_BYTES, lambda: None)
                status = reply.status
    except TimeoutError:
        return Fault(FaultKind.TIMEOUT, f"{name}: no answer within {seconds:g} s")
    except TransportError as failed:
        fault = fault_of_transport(failed)
        return structs.replace(fault, message=f"{name}: {fault.message}")
    if status in (401, 403):
        return Fault(FaultKind.AUTH, f"{name}: the key was refused with status {status}", status)
    names = read_model_list(body or b"", _MAX_MODELS)
    if names is None:
        message = f"the list of models failed with status {status}"
        fault = html_fault(status, body or b"") or Fault(FaultKind.UPSTREAM_BAD, message, status)
        return structs.replace(fault, message=f"{name}: {fault.message}")
    return names


class Catalogue:
    """The model lists of upstreams, and until when each is valid."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._lists: dict[str, tuple[float, list[str]]] = {}  # until when, and which models

    def forget(self) -> None:
        """Ask again: the upstreams may be others."""
        self._lists.clear()

    async def models(self, plan: Plan) -> Mapping[str, list[str]]:
        """Return the models of every upstream whose settings list none; none for one that sends no list."""
        now = asyncio.get_running_loop().time()
        missing = [
            hop
            for hop in plan.router.upstreams()
            if not hop.upstream.models and now >= self._lists.get(hop.upstream_name, _NEVER)[0]
        ]
        asked = (ask_models(self._connector, plan, hop) for hop in missing)
        for hop, answer in zip(missing, await asyncio.gather(*asked), strict=True):
            name = hop.upstream_name
            if isinstance(answer, Fault):  # what was known before is better than nothing
                self._lists[name] = (now + _FAILED_SECONDS, self._lists.get(name, _NEVER)[1])
            else:
                self._lists[name] = (now + _KEPT_SECONDS, answer)
        return {name: models for name, (_, models) in self._lists.items()}


# --- written for clients ---


_MAX_PAGE: Final = 1000
_SHOWN_CHARS: Final = 200


class _Model(Struct, frozen=True, kw_only=True):
    id: str
    object: str = "model"
    type: str = "model"
    created: int
    created_at: str
    owned_by: str
    display_name: str
    max_input_tokens: int | None
    max_tokens: int | None
    lifecycle: str = "active"


class _Page(Struct, frozen=True, kw_only=True):
    object: str = "list"
    data: list[_Model]
    has_more: bool
    first_id: str | None
    last_id: str | None


def model_list(
    models: Sequence[Listed],
    query: Mapping[str, str],
    *,
    created: int = 0,
    spoken: str = DEFAULT_DIALECT,
) -> bytes | Fault:
    """Return the page that a client asks for; `created` is the Unix time that every model is given."""
    own = dialect(spoken).model_lists
    if own is not None:
        return own.encode([_listed(one) for one in models], query)
    if "client_version" in query:
        # Test: test_codex_gets_no_list_of_models.
        # Codex reads another shape here; without an answer it goes by what it knows itself.
        return Fault(FaultKind.NOT_FOUND, "there is no list of models for this client", status=404)
    limit = _limit(query)
    if isinstance(limit, Fault):
        return limit
    page = _page([one.name for one in models], query, limit)
    if isinstance(page, Fault):
        return page
    first, end, more = page
    data = [_model(one, created) for one in models[first:end]]
    return msgspec.json.encode(
        _Page(
            data=data,
            has_more=more,
            first_id=data[0].id if data else None,
            last_id=data[-1].id if data else None,
        )
    )


def find_model(
    models: Sequence[Listed], name: str, *, created: int = 0, spoken: str = DEFAULT_DIALECT
) -> bytes | Fault:
    """Return what is known about one model; its name is case-insensitive."""
    own = dialect(spoken).model_lists
    wanted = name.lower()
    for one in models:
        if one.name.lower() == wanted:
            if own is not None:
                return own.encode_one(_listed(one))
            return msgspec.json.encode(_model(one, created))
    message = f"there is no model `{name[:_SHOWN_CHARS]}`; GET /v1/models lists the available ones"
    return Fault(FaultKind.NOT_FOUND, message, status=404, param="model")


def _limit(query: Mapping[str, str]) -> int | Fault:
    text = query.get("limit", "")
    if not text:
        return _MAX_PAGE
    limit = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if limit < 1:
        return _bad("limit", "must be an integer of at least 1")
    return min(limit, _MAX_PAGE)


def _page(
    names: Sequence[str], query: Mapping[str, str], limit: int
) -> tuple[int, int, bool] | Fault:
    """Return where the page begins and ends, and whether there is more in the direction asked for."""
    after, before = query.get("after_id", ""), query.get("before_id", "")
    if after and before:
        return _bad("before_id", "cannot be used together with `after_id`")
    for param, name in (("after_id", after), ("before_id", before)):
        if name and name not in names:
            return _bad(param, f"is not the id of a model: `{name[:_SHOWN_CHARS]}`")
    if before:
        end = names.index(before)
        first = max(0, end - limit)
        return first, end, first > 0
    first = names.index(after) + 1 if after else 0
    end = min(len(names), first + limit)
    return first, end, end < len(names)


def _bad(param: str, why: str) -> Fault:
    return Fault(FaultKind.BAD_REQUEST, f"`{param}` {why}", status=400, param=param)


def _listed(model: Listed) -> ListedModel:
    facts = model.facts
    return ListedModel(model.name, facts.display or model.name, facts.context, facts.output)


def _model(listed: Listed, created: int) -> _Model:
    facts = listed.facts
    stamp = datetime.fromtimestamp(created, UTC).isoformat(timespec="seconds")
    return _Model(
        id=listed.name,
        created=created,
        created_at=stamp.replace("+00:00", "Z"),
        owned_by=listed.owner,
        display_name=facts.display or listed.name,
        max_input_tokens=facts.context or None,
        max_tokens=facts.output or None,
    )
