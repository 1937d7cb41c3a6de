"""What type checkers infer for users of the public API.  Checked by mypy, never run."""

from typing import Any, assert_never, assert_type

from dragoman import (
    Answer,
    AnswerStream,
    ArgsDelta,
    BlockEnd,
    BlockStart,
    CacheHint,
    Checker,
    Citation,
    Client,
    ClientError,
    Event,
    Fault,
    Finish,
    FinishReason,
    ImagePart,
    InputDelta,
    Loss,
    Opaque,
    Ping,
    ReasoningDelta,
    ReasoningSettings,
    RefusalDelta,
    Request,
    Start,
    Step,
    SyncAnswerStream,
    SyncClient,
    TextDelta,
    TextPart,
    Tool,
    ToolCall,
    ToolCallParser,
    ToolLoop,
    TranslatedRequest,
    Translator,
    Turn,
    UrlSource,
    Usage,
    Verdict,
    Violation,
    error_response,
    request,
    tool,
    translate_request,
    user,
)
from dragoman.testing import ReceivedRequest, Simulator


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return city


async def asynchronous(client: Client, question: Request) -> None:
    answer = await client.create(question, timeout=3)
    assert_type(answer, Answer)
    assert_type(answer.text, str)
    assert_type(answer.finish_reason, FinishReason | None)
    assert_type(answer.usage, Usage | None)
    assert_type(answer.tool_calls, tuple[ToolCall, ...])
    assert_type(answer.tool_calls[0].args, dict[str, Any])
    assert_type(answer.losses, tuple[Loss, ...])
    async with client.stream(question) as stream:
        assert_type(stream, AnswerStream)
        async for text in stream.text:
            assert_type(text, str)
        async for event in stream:
            assert_type(event, Event)
            if isinstance(event, TextDelta):
                assert_type(event.text, str)
    assert_type(stream.answer(), Answer)
    loop = ToolLoop(client, question)
    async for step in loop:
        assert_type(step, Step)
        assert_type(step.pending, tuple[ToolCall, ...])
    assert_type(await loop.run_async([get_weather]), Answer)


def synchronous(client: SyncClient, simulator: Simulator) -> None:
    question = request(user("Hi"), tools=[get_weather, tool("f")])
    assert_type(question, Request)
    assert_type(user("Hi"), Turn)
    assert_type(tool(get_weather), Tool)
    with client.stream(question) as stream:
        assert_type(stream, SyncAnswerStream)
        for text in stream.text:
            assert_type(text, str)
    assert_type(ToolLoop(client, question).run({"get_weather": get_weather}), Answer)
    assert_type(simulator.requests, tuple[ReceivedRequest, ...])


def core(error: ClientError) -> None:
    assert_type(error.received, Answer | None)
    assert_type(translate_request(b"", source="chat", target="anthropic"), TranslatedRequest)
    assert_type(error_response(error, target="chat"), tuple[int, bytes])
    assert_type(Translator(source="chat", target="anthropic").feed(b""), bytes)
    checker = Checker("chat")
    found: list[Violation] = checker.feed(b"") + checker.close()
    assert_type(found[0].reason, str)
    assert_type(checker.verdict, Verdict)
    assert_type(user("Look.", ImagePart(UrlSource("…")), TextPart("…", cache=CacheHint())), Turn)
    assert_type(request("Hi", reasoning=ReasoningSettings(mode="off")), Request)
    parser = ToolCallParser(format="hermes")
    assert_type(parser.feed(""), list[Event])
    assert_type(parser.result.tool_calls, tuple[ToolCall, ...])


def text_of(event: Event) -> str:
    match event:
        case TextDelta() | ReasoningDelta() | InputDelta() | RefusalDelta():
            return event.text
        case ArgsDelta():
            return event.json
        case Start() | BlockStart() | BlockEnd() | Citation() | Opaque() | Usage() | Ping():
            return ""
        case Finish() | Fault() | Loss():
            return ""
        case _:
            assert_never(event)
