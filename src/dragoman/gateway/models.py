"""The list of models, in one shape that both families of SDKs read."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.gateway.routing import Listed
from dragoman.turn.events import Fault, FaultKind

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
    models: Sequence[Listed], query: Mapping[str, str], *, created: int = 0
) -> bytes | Fault:
    """Return the page that a client asks for; `created` is the Unix time that every model is given."""
    if "client_version" in query:
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


def find_model(models: Sequence[Listed], name: str, *, created: int = 0) -> bytes | Fault:
    """Return what is known of one model; letter case is of no importance."""
    wanted = name.lower()
    for one in models:
        if one.name.lower() == wanted:
            return msgspec.json.encode(_model(one, created))
    message = f"there is no model `{name[:_SHOWN_CHARS]}`; GET /v1/models lists those there are"
    return Fault(FaultKind.NOT_FOUND, message, status=404, param="model")


def _limit(query: Mapping[str, str]) -> int | Fault:
    text = query.get("limit", "")
    if not text:
        return _MAX_PAGE
    limit = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if limit < 1:
        return _bad("limit", "must be a whole number from 1 on")
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
            return _bad(param, f"names no model: `{name[:_SHOWN_CHARS]}`")
    if before:
        end = names.index(before)
        first = max(0, end - limit)
        return first, end, first > 0
    first = names.index(after) + 1 if after else 0
    end = min(len(names), first + limit)
    return first, end, end < len(names)


def _bad(param: str, why: str) -> Fault:
    return Fault(FaultKind.BAD_REQUEST, f"`{param}` {why}", status=400, param=param)


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
