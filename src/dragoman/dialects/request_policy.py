"""Decisions about a request that every dialect's writer makes in the same way.

* what a target refuses: `n` other than 1, a previous response id, an output limit of 0, losses for a strict target
* thinking: budget to effort, effort to budget, efforts that the target does not know
* sampling, stop sequences and output limits: what is clamped, dropped, or matched on the answer
* JSON output: which format the target gets, and the instruction where it enforces none; schemas in its flavour
* the user id

Decisions about tools are in `tool_policy`, about the conversation in `history_policy`.
"""

import hashlib
import re
from collections.abc import Collection, Iterable
from typing import Final, Literal

import msgspec
from msgspec import Raw

from dragoman.dialects.paths import path_of
from dragoman.dialects.server_tools import SET_UP_BESIDE
from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.profiles.schema import rewrite
from dragoman.turn.losses import CODES, Loss
from dragoman.turn.request import OutputFormat, ReasoningSettings, Request, Sampling
from dragoman.wire.json_values import decode_any

# --- what a target refuses --------------------------------------------------------------------------


def refuse_unsupported(request: Request, *, many: bool = False, warms_cache: bool = False) -> None:
    """Refuse what a target cannot do at all.

    `many`: the target may return several answers (Chat to Chat only).  `warms_cache`: the target takes an
    output limit of 0, which reads the prompt into a cache (Messages only).

    Raises:
        UntranslatableError: the request asks for several answers, for a conversation that is not in it, or for
            an answer of no tokens; carries the path.
    """
    if request.count != 1 and not many:
        reason = "the target returns one answer per request"
        raise UntranslatableError(reason, path=path_of(request, "count"))
    if request.previous_id:
        # A store must have put the earlier items into the request and cleared the id.
        reason = f"the response `{request.previous_id}` is not stored here"
        path = path_of(request, "previous_id")
        raise UntranslatableError(reason, path=path, code="previous_response_not_found")
    if request.max_output is not None and request.max_output <= 0 and not warms_cache:
        reason = (
            "the target cannot return an answer of zero tokens, which only fills a prompt cache"
        )
        raise UntranslatableError(reason, path=path_of(request, "max_output"))


# Losses that keep the meaning of a request.  A strict target refuses every other loss.
HARMLESS: Final = frozenset(
    {
        "cache_hint_dropped",
        "call_id_renumbered",
        "content_flattened",
        "empty_content_filled",
        "json_object_emulated",
        "max_tokens_defaulted",
        "opaque_dropped",
        "reasoning_dropped",
        "reasoning_filled",
        "refusal_as_text",
        "schema_rewritten",
        "server_tool_mapped",
        "stop_emulated",
        "system_midturn_emulated",
        "tool_choice_dropped",
        "tool_choice_narrowed",
        "tool_image_moved",
        "tool_renamed",
        "turn_added",
        "user_id_dropped",
        "user_turn_appended",
    }
)


def refuse_losses(losses: Iterable[Loss]) -> None:
    """Refuse a request that would reach a strict target with another meaning.

    Raises:
        UntranslatableError: carries the code and the path of the first loss that is not in `HARMLESS`.
    """
    for loss in losses:
        if loss.code not in HARMLESS:
            detail = f": {loss.detail}" if loss.detail else ""
            raise UntranslatableError(f"{CODES[loss.code]}{detail}", path=loss.path, code=loss.code)


# --- fields that only the client's dialect has ------------------------------------------------------

# Values that ask for nothing.
_NOTHING: Final = frozenset({b"null", b"false", b"[]", b"{}", b'""', b'["text"]'})
# Vendors' ways to ask for thinking, which are part of `Request.reasoning` if they were understood.
_THINKING: Final = frozenset(
    {"reasoning", "thinking", "chat_template_kwargs", "enable_thinking", "thinking_budget"}
)
# Without these, the answer would not be what was asked for.
_NEEDED: Final = frozenset({"audio", "compaction", "container", "thread"})


def report_foreign_fields(request: Request, losses: list[Loss]) -> None:
    """Report the fields of another dialect that the upstream has no place for.

    Raises:
        UntranslatableError: the answer would not be what was asked for without one of them.
    """
    for name, raw in request.extensions.items():
        value = bytes(raw)
        if value in _NOTHING or name in SET_UP_BESIDE:
            continue
        if name in _THINKING and request.reasoning != ReasoningSettings():
            continue
        if name in _NEEDED or (name == "modalities" and b"audio" in value):
            raise UntranslatableError(f"the target has no `{name}`", path=f"$.{name}")
        losses.append(Loss("field_dropped", f"$.{name}"))


# --- thinking ---------------------------------------------------------------------------------------
# Clients ask for an effort or for a budget of tokens; an upstream knows one of them, or only on and off.

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
USUAL_EFFORT: Final = "high"  # of a model that decides itself how long to think
# From budget to effort: the first row whose number of tokens the budget reaches, else `low`.
_LEAST_BUDGETS: Final = ((32_768, "xhigh"), (16_384, "high"), (4096, "medium"))
_BUDGETS: Final = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 64_000,
}


def effort_of(budget: int) -> str:
    """Return the effort for a thinking budget of any size, for upstreams that take no number of tokens."""
    return next((effort for least, effort in _LEAST_BUDGETS if budget >= least), "low")


def budget_of(effort: str) -> int:
    """Return the thinking budget for an effort; without one, for the usual effort."""
    return _BUDGETS[effort or USUAL_EFFORT]


def is_off(thinking: ReasoningSettings) -> bool:
    """Return whether the client asks for an answer without thinking."""
    return thinking.mode == "off" or thinking.effort == "none"


def wanted_effort(
    request: Request, thinking: ReasoningSettings, profile: Profile, losses: list[Loss]
) -> str:
    """Return the effort for an upstream that takes efforts; empty if the model decides itself.

    A budget becomes an effort (`thinking_converted`), an unknown word `high`, and an effort that the
    upstream lacks the nearest one (`effort_adjusted`).
    """
    if is_off(thinking):
        return nearest_effort("none", request, profile, losses)
    if thinking.effort:
        return nearest_effort(known_effort(request, thinking, losses), request, profile, losses)
    if thinking.budget is None:
        return ""
    effort = _nearest(effort_of(thinking.budget), profile)
    report_conversion(request, f"budget {thinking.budget} became effort {effort}", losses)
    return effort


def known_effort(request: Request, thinking: ReasoningSettings, losses: list[Loss]) -> str:
    """Return the effort that the client names, `high` in place of a word that is not one."""
    if not thinking.effort or thinking.effort in EFFORTS:
        return thinking.effort
    detail = f"{thinking.effort[:40]} is unknown and became {USUAL_EFFORT}"
    losses.append(Loss("effort_adjusted", path_of(request, "thinking"), detail))
    return USUAL_EFFORT


def nearest_effort(effort: str, request: Request, profile: Profile, losses: list[Loss]) -> str:
    """Return the nearest effort that the upstream knows: the next lower one, else the next higher."""
    nearest = _nearest(effort, profile)
    if nearest != effort:
        detail = f"{effort} became {nearest}"
        losses.append(Loss("effort_adjusted", path_of(request, "thinking"), detail))
    return nearest


def _nearest(effort: str, profile: Profile) -> str:
    supported = profile.supported_efforts
    if effort in supported or not supported:
        return effort
    known = [one for one in EFFORTS if one in supported]
    rank = EFFORTS.index(effort)
    # No thinking at all is not a low effort.
    lower = [one for one in known if one != "none" and EFFORTS.index(one) < rank]
    higher = [one for one in known if EFFORTS.index(one) > rank]
    return lower[-1] if lower else higher[0] if higher else known[0] if known else effort


def report_conversion(request: Request, detail: str, losses: list[Loss]) -> None:
    """Report that the upstream gets another kind of thinking setting than the client sent."""
    losses.append(Loss("thinking_converted", path_of(request, "thinking"), detail))


# --- sampling and limits ----------------------------------------------------------------------------

NO_SAMPLING: Final = Sampling()


def sampling_fields(
    request: Request,
    profile: Profile,
    losses: list[Loss],
    *,
    refused: Collection[str],
    max_temperature: float = 2.0,
) -> dict[str, object]:
    """Return the sampling parameters that the target takes, by their names in `Sampling`.

    `refused` names those that its dialect or its profile does not take; they are reported.  A temperature
    above the target's range is clamped.
    """
    fields: dict[str, object] = {}
    for name in Sampling.__struct_fields__:
        value = getattr(request.sampling, name)
        if value is None:
            continue
        if name in refused or (profile.drop_sampling and name in ("temperature", "top_p")):
            losses.append(Loss("sampling_dropped", path_of(request, name)))
            continue
        if name == "temperature":
            most = min(profile.max_temperature, max_temperature)
            if value > most:
                detail = f"{value:g} became {most:g}"
                losses.append(Loss("value_clamped", path_of(request, name), detail))
                value = most
        fields[name] = value
    return fields


def output_limit(
    request: Request, profile: Profile, losses: list[Loss], *, least: int = 0
) -> int | None:
    """Return the client's output limit, brought between `least` and the most that the target takes."""
    wanted = request.max_output
    if wanted is None:
        return None
    most = profile.max_output_tokens
    limit = max(least, wanted if most is None else min(wanted, most))
    if limit != wanted:
        path = path_of(request, "max_output")
        losses.append(Loss("value_clamped", path, f"{wanted} became {limit}"))
    return limit


def split_stop(
    request: Request, most: int, losses: list[Loss]
) -> tuple[list[str], tuple[str, ...]]:
    """Return the stop sequences that the upstream gets, `most` of them, and those matched on its answer."""
    stop = request.stop
    if len(stop) > most:
        detail = f"{len(stop) - most} of {len(stop)}"
        losses.append(Loss("stop_emulated", path_of(request, "stop"), detail))
    return list(stop[:most]), stop[most:]


# --- JSON output ------------------------------------------------------------------------------------

JSON_ONLY: Final = "Respond with a single JSON object and nothing else."
_WITH_SCHEMA: Final = f"{JSON_ONLY} It must match this JSON schema:\n"
# Keywords whose value is data and not a schema.
_DATA: Final = frozenset({"const", "default", "enum", "examples", "required"})


def output_format(
    request: Request,
    profile: Profile,
    instructions: list[str],
    losses: list[Loss],
    *,
    json_object: bool = True,
) -> Literal["text", "json_object", "json_schema"]:
    """Return the format to ask the target for; what it does not enforce is added to `instructions`.

    `json_object`: the dialect has a format for any JSON object (Messages has none).
    """
    wanted = request.format
    if wanted.kind == "text":
        return "text"
    level = profile.json_schema
    if request.tools and not profile.json_schema_with_tools:
        level = "instruction"
    if wanted.kind == "json_schema" and wanted.schema is not None:
        if level == "native":
            return "json_schema"
        losses.append(Loss("schema_not_enforced", path_of(request, "format")))
        instructions.append(_WITH_SCHEMA + bytes(wanted.schema).decode())
        return "json_object" if level == "json_object" and json_object else "text"
    if level != "instruction" and json_object:
        return "json_object"
    losses.append(Loss("json_object_emulated", path_of(request, "format")))
    instructions.append(JSON_ONLY)
    return "text"


def fitted_schema(
    schema: Raw, profile: Profile, losses: list[Loss], *, path: str, name: str = ""
) -> Raw:
    """Return the schema of a tool or of an output as the upstream takes schemas; a change is reported.

    Raises:
        MalformedError: it is not JSON.
        UntranslatableError: it nests too deeply, or grows too large.
    """
    fitted = rewrite(schema, profile.schema_dialect, path=path)
    if fitted is not schema:
        losses.append(Loss("schema_rewritten", path, name))
    return fitted


def strict_output(wanted: OutputFormat, schema: Raw, profile: Profile) -> bool | None:
    """Return `strict` of an output format, None to leave it out.

    A client of another dialect that does not mention it expects output that matches its schema.
    """
    if wanted.strict is None and profile.supports_strict:
        return is_strict(schema)
    return wanted.strict


def is_strict(schema: Raw) -> bool:
    """Return whether a schema meets the rules of strict output, on every level.

    OpenAI demands closed objects (`additionalProperties: false`) whose properties are all required, and
    answers 400 to `strict: true` with any other schema.
    """
    try:
        return _is_closed(decode_any(schema))
    except (msgspec.DecodeError, RecursionError):
        return False


def _is_closed(node: object) -> bool:
    if isinstance(node, list):
        return all(map(_is_closed, node))
    if not isinstance(node, dict):
        return True
    if node.get("type") == "object" or "properties" in node:
        properties, required = node.get("properties"), node.get("required")
        names = properties.keys() if isinstance(properties, dict) else set()
        listed = set(required) if isinstance(required, list) else set()
        if node.get("additionalProperties") is not False or names - listed:
            return False
    return all(_is_closed(one) for keyword, one in node.items() if keyword not in _DATA)


# --- the user id ------------------------------------------------------------------------------------

# OpenAI takes 64 characters; DeepSeek and others take no blanks or brackets.
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_.@:-]{1,64}")


def user_id_for(request: Request, profile: Profile, losses: list[Loss], *, native: bool) -> str:
    """Return the user id for a Chat or Responses upstream; empty if it has no field for one.

    An id that is too long or holds other characters (Claude Code sends JSON) is replaced by its SHA-256
    digest: one user has one id at every upstream.  `native`: the client speaks the upstream's dialect.
    """
    user_id = request.user_id
    if user_id and profile.user_field == "none":
        losses.append(Loss("user_id_dropped", path_of(request, "user_id")))
        return ""
    if native or not user_id or _PLAIN_ID.fullmatch(user_id):
        return user_id
    return hashlib.sha256(user_id.encode("utf-8", "surrogatepass")).hexdigest()
