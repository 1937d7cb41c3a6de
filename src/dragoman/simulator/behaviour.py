"""Composes the model's answer: text without tools, calls with tools, text after their results."""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from dragoman.errors import MalformedError
from dragoman.simulator.answer_writers.frames import encode_body
from dragoman.simulator.conversation import DirectedAnswer, DirectedCall, Prompt, due_step, prompts
from dragoman.simulator.play import (
    Json,
    ReceivedRequest,
    Reply,
    SimulatedCall,
    SimulatedImage,
    SimulatedMcpCall,
    SimulatedSearch,
)
from dragoman.simulator.samples import sample
from dragoman.simulator.searches import NO_SEARCH, is_due
from dragoman.turn.events import Flavor
from dragoman.turn.request import Request, Tool
from dragoman.turn.server_tools import ServerKind

_SHORT: Final = 120  # characters of the user's text that the answer repeats
_CALLABLE: Final = frozenset({Flavor.FUNCTION, Flavor.CUSTOM})


def compose(asked: ReceivedRequest) -> Reply:
    """Return the model's answer, before any quirk.

    Raises:
        MalformedError: a directive is not understood, or the dialect has no place for what it asks for.
    """
    conversation = prompts(asked.request)
    step = due_step(conversation)
    if step is not None:
        return _directed(asked, step)
    thought = _thought(conversation[-1]) if _thinks(asked.request) else ""
    searches, mcp_calls = searches_of(asked), mcp_calls_of(asked)
    if _calls_now(asked.request, conversation[-1]):
        tools = callable_tools(asked.request)
        tool = _chosen(tools, conversation[-1].text)
        return Reply(
            reasoning=thought,
            searches=searches,
            mcp_calls=mcp_calls,
            text=f"I will use `{tool.name}`.",
            calls=(plausible_call(asked, tool, 0),),
            finish="tool_calls",
        )
    return Reply(
        reasoning=thought,
        searches=searches,
        mcp_calls=mcp_calls,
        images=(SimulatedImage(_short(conversation[-1].text)),) if wants_image(asked) else (),
        text=_answer(asked.request, conversation),
    )


def callable_tools(request: Request) -> list[Tool]:
    """Return the tools that the request's tool choice allows."""
    choice = request.tool_choice
    tools = [tool for tool in request.tools if not tool.server and tool.flavor in _CALLABLE]
    if choice is None:
        return tools
    if choice.mode == "none":
        return []
    if choice.mode == "tool":
        return [tool for tool in tools if tool.name == choice.name]
    return [tool for tool in tools if not choice.allowed or tool.name in choice.allowed]


def plausible_call(asked: ReceivedRequest, tool: Tool, number: int) -> SimulatedCall:
    """Return a call of a tool, made from its schema."""
    if tool.flavor is Flavor.CUSTOM:
        arguments = f"example input of {tool.name}"
    else:
        schema: Json = msgspec.json.decode(tool.schema) if tool.schema is not None else {}
        if isinstance(schema, dict):
            schema.setdefault("type", "object")
        value = sample(schema, name=tool.name, variant=number)
        arguments = _json(value if isinstance(value, dict) else {})
    return SimulatedCall(
        id=call_id(asked, number),
        name=tool.name,
        arguments=arguments,
        flavor=tool.flavor,
        namespace=tool.namespace,
    )


def searches_of(asked: ReceivedRequest, host: str = "") -> tuple[SimulatedSearch, ...]:
    """Return the searches of a vendor: those of directives, or one for the user's words if it is due.

    Raises:
        MalformedError: a directive is not understood.
    """
    conversation = prompts(asked.request)
    step = due_step(conversation)
    if step is not None:
        return () if host == NO_SEARCH else tuple(map(SimulatedSearch, step.searches))
    last = conversation[-1]
    if last.results or not is_due(asked.request, asked.fields, host):
        return ()
    return (SimulatedSearch(_short(last.text)),)


def mcp_calls_of(
    asked: ReceivedRequest, directed: Sequence[DirectedCall] = ()
) -> tuple[SimulatedMcpCall, ...]:
    """Return the calls of MCP servers: those of directives, or one if the request needs them."""
    declared = [
        server
        for tool in asked.request.tools
        if tool.server_options is not None
        for server in tool.server_options.servers
    ]
    if not declared:
        return ()
    first = declared[0]
    if not directed and ServerKind.MCP in asked.request.needed:
        directed = (DirectedCall((first.allowed or ("list_notes",))[0], {"about": "everything"}),)
    return tuple(
        SimulatedMcpCall(server=first.name, name=one.name, arguments=_json(one.arguments))
        for one in directed
    )


def wants_image(asked: ReceivedRequest) -> bool:
    """Return whether a request asks for an image: with a tool, or as OpenRouter and Google are asked for one."""
    if ServerKind.IMAGE in asked.request.needed:
        return True
    fields: Json = asked.fields
    if asked.request.dialect == "gemini":
        fields = asked.fields.get("generationConfig")
    name = "responseModalities" if asked.request.dialect == "gemini" else "modalities"
    wanted = fields.get(name) if isinstance(fields, dict) else None
    return isinstance(wanted, list) and any(str(one).upper() == "IMAGE" for one in wanted)


def call_id(asked: ReceivedRequest, number: int) -> str:
    """Return the id of a call, unique to this request."""
    digest = hashlib.sha256(f"{asked.seed}/{number}".encode()).hexdigest()[:24]
    return f"toolu_{digest}" if asked.request.dialect == "anthropic" else f"call_{digest}"


def directed_calls(
    asked: ReceivedRequest, calls: Sequence[DirectedCall]
) -> tuple[SimulatedCall, ...]:
    """Return calls whose names and arguments are given."""
    known = {tool.name: tool for tool in asked.request.tools}
    out = []
    for number, call in enumerate(calls):
        tool = known.get(call.name)
        custom = isinstance(call.arguments, str)
        out.append(
            SimulatedCall(
                id=call_id(asked, number),
                name=call.name,
                arguments=call.arguments
                if isinstance(call.arguments, str)
                else _json(call.arguments),
                flavor=Flavor.CUSTOM if custom else Flavor.FUNCTION,
                namespace=tool.namespace if tool is not None else "",
            )
        )
    return tuple(out)


def _directed(asked: ReceivedRequest, step: DirectedAnswer) -> Reply:
    if step.images and asked.request.dialect == "anthropic":
        raise MalformedError("`sim: image`: Messages has no images that a model makes")
    return Reply(
        reasoning=step.think,
        searches=tuple(map(SimulatedSearch, step.searches)),
        mcp_calls=mcp_calls_of(asked, step.mcp_calls) if step.mcp_calls else (),
        images=tuple(map(SimulatedImage, step.images)),
        text=step.text,
        calls=directed_calls(asked, step.calls),
        finish="tool_calls" if step.calls else "stop",
    )


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _thinks(request: Request) -> bool:
    thinking = request.reasoning
    if thinking.mode == "off" or thinking.effort == "none":
        return False
    return thinking.mode in ("auto", "budget", "effort") or thinking.show in ("summary", "full")


def _calls_now(request: Request, last: Prompt) -> bool:
    if not callable_tools(request):
        return False
    choice = request.tool_choice
    forced = choice is not None and choice.mode in ("required", "tool")
    return forced or not last.results


def _chosen(tools: list[Tool], text: str) -> Tool:
    """Return the tool that the user's text names, or the first."""
    named = [tool for tool in tools if tool.name in text]
    return max(named, key=lambda tool: len(tool.name)) if named else tools[0]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else f"{line[:_SHORT]}…"


def _thought(last: Prompt) -> str:
    if last.results:
        return "The tools have answered. I can tell the user what they said."
    return f"The user says: {_short(last.text)} Let me think about what is wanted."


def _answer(request: Request, conversation: list[Prompt]) -> str:
    if request.format.kind == "json_schema" and request.format.schema is not None:
        return _json(sample(msgspec.json.decode(request.format.schema), name="answer"))
    last = conversation[-1]
    if request.format.kind == "json_object":
        return encode_body({"answer": _short(last.text)}).decode()
    if last.results:
        results = " ".join(f"{one.name} returned: {_short(one.text)}." for one in last.results)
        return f"The tools have answered. {results} That is all I need."
    words = len(last.text.split())
    return (
        f"You said: {_short(last.text)} "
        f"I count {words} words, and this is answer number {len(conversation)}. "
        "I am a simulated model: I answer the same to the same words."
    )
