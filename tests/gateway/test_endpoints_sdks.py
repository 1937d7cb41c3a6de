"""The official SDKs through a running gateway, in all sixteen directions, streaming and not."""

import asyncio
import itertools
import json
import re

import anthropic
import openai
import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Settings
from dragoman.simulator.answer import seed_of
from dragoman.simulator.answer_writers import gemini
from dragoman.simulator.answer_writers.anthropic import signature
from dragoman.simulator.exchanges import RecordedExchange
from tests.support.gateway import DIALECTS, FIXED_PATHS, Stand, settings_for, stand
from tests.support.received import received
from tests.support.talks import GeminiCliTalk, Said, Sdks

WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
WRITE = {
    "name": "write_file",
    "description": "Writes a file.",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
}
FAMILIES = ("kimi-k2", "qwen3-coder", "deepseek-v3.1", "glm-4.6", "minimax-m2")
PROFILES = {
    "chat": "deepseek",
    "anthropic": "anthropic",
    "responses": "openai",
    "gemini": "gemini-api",
}
THOUGHT = "Let me think about this. I know what to do."
MARKUP = re.compile(r"<[|｜/\w]|functions\.")

clients = pytest.mark.parametrize("client", DIALECTS)
upstreams = pytest.mark.parametrize("upstream", DIALECTS)
# For what does not depend on both: all old directions, and one into each of the new sides.
SOME = [*itertools.product(FIXED_PATHS, FIXED_PATHS), ("gemini", "chat"), ("anthropic", "gemini")]
directions = pytest.mark.parametrize(("client", "upstream"), SOME)
ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


def of_vendors(url: str) -> Settings:
    """Return settings whose upstreams take their own reasoning back."""
    plain = settings_for(url)
    upstreams = {
        name: structs.replace(one, profile=PROFILES[name]) for name, one in plain.upstreams.items()
    }
    return structs.replace(plain, upstreams=upstreams)


@pytest.fixture(scope="module")
def vendors() -> Stand:
    with stand(of_vendors) as found:
        yield found


@pytest.fixture(scope="module")
def vendor_sdks(vendors: Stand) -> Sdks:
    with Sdks(vendors.url) as found:
        yield found


@clients
@upstreams
@ways
def test_plain_text_arrives(sdks: Sdks, client: str, upstream: str, stream: bool) -> None:
    talk = sdks.talk(client, f"{upstream}/plain", stream=stream)
    first = talk.ask("Say it, täglich 🙂")
    second = talk.ask("And again")

    assert first.text.startswith("You said: Say it, täglich 🙂 I count 4 words")
    assert "this is answer number 2" in second.text
    assert [talk.done, talk.done] == [first.finish, second.finish]
    assert ((), "") == (first.calls, first.reasoning)


@clients
@upstreams
@ways
def test_parallel_calls_come_and_their_results_return(
    gateway: Stand, sdks: Sdks, client: str, upstream: str, stream: bool
) -> None:
    talk = sdks.talk(client, f"{upstream}/plain+parallel:2", stream=stream, tools=(WEATHER, WRITE))
    first = talk.ask("How is it in Ulm?")
    last = talk.answer(first, "sunny in Ulm", "written down")
    history = received(gateway.simulator.exchanges[-1])

    assert ["get_weather", "write_file"] == [name for _, name, _ in first.calls]
    assert [{"city"}, {"path", "content"}] == [arguments.keys() for _, _, arguments in first.calls]
    assert talk.called == first.finish
    assert talk.done == last.finish
    assert "sunny in Ulm" in last.text
    assert "written down" in last.text
    assert first.calls == history.calls
    assert [*zip(first.ids, ("sunny in Ulm", "written down"), strict=True)] == [*history.results]


@directions
@ways
@pytest.mark.parametrize("family", ["plain", "kimi-k2", "glm-4.6"])
def test_call_of_a_hundred_kilobytes_arrives_whole(
    gateway: Stand, sdks: Sdks, *, client: str, upstream: str, stream: bool, family: str
) -> None:
    # The SDKs' helpers read all arguments anew at every event: small pieces would test only them.
    model = f"{upstream}/{family}+args:100+chunk:8192"
    talk = sdks.talk(client, model, stream=stream, tools=(WRITE,))
    first = talk.ask("Write it down.")
    last = talk.answer(first, "done")
    line = 'The quick brown fox jumps over the lazy dog, and "quotes" and é too.\n'
    ((_, _, arguments),) = first.calls
    ((_, _, returned),) = received(gateway.simulator.exchanges[-1]).calls

    assert (line * 2000)[: 100 * 1024] in arguments.values()
    assert arguments == returned
    assert talk.done == last.finish


@clients
@upstreams
@ways
def test_reasoning_returns_to_the_upstream_that_made_it(
    vendors: Stand, vendor_sdks: Sdks, client: str, upstream: str, stream: bool
) -> None:
    talk = vendor_sdks.talk(
        client, f"{upstream}/plain+think+parallel:2", stream=stream, tools=(WEATHER,)
    )
    first = talk.ask(f"How is it in Ulm? {client} {stream}")
    begun = vendors.simulator.exchanges[-1]
    talk.answer(first, "sunny", "and warm")
    history = received(vendors.simulator.exchanges[-1])

    assert first.reasoning == THOUGHT or (client == "gemini" and first.reasoning)
    # Google needs the signature alone; within the dialect a client's bytes pass.
    returns = upstream != "gemini" or client == "gemini"
    assert (first.reasoning if returns else "") == "".join(history.reasoning)
    assert first.ids == history.ids
    assert [*zip(first.ids, ("sunny", "and warm"), strict=True)] == [*history.results]
    assert signed(upstream, begun, first) == history.state


@upstreams
def test_reasoning_returns_through_a_client_that_drops_thoughts(
    vendors: Stand, vendor_sdks: Sdks, upstream: str
) -> None:
    model = f"{upstream}/plain+think+parallel:2"
    talk = GeminiCliTalk(vendor_sdks.google, model, stream=True, tools=(WEATHER,))
    first = talk.ask("How is it in Bonn?")
    begun = vendors.simulator.exchanges[-1]
    talk.answer(first, "sunny", "and warm")
    history = received(vendors.simulator.exchanges[-1])

    assert first.reasoning
    assert (() if upstream == "gemini" else (first.reasoning,)) == history.reasoning
    assert first.ids == history.ids
    assert signed(upstream, begun, first) == history.state


def signed(upstream: str, begun: RecordedExchange, first: Said) -> tuple[str, ...]:
    """Return what the simulator signs its thought with, or its first call."""
    match upstream:
        case "gemini":
            return (gemini.signature(*first.calls[0][:2]),)
        case "anthropic":
            return (signature(first.reasoning),)
        case "responses":
            return (f"sim{seed_of(upstream, begun.body)}",)
    return ()


@directions
@ways
@pytest.mark.parametrize("family", FAMILIES)
def test_c1_k2_1_calls_leaked_into_reasoning_become_calls(
    gateway: Stand, sdks: Sdks, *, client: str, upstream: str, stream: bool, family: str
) -> None:
    model = f"{upstream}/{family}+think+leak-reasoning+parallel:2"
    talk = sdks.talk(client, model, stream=stream, tools=(WEATHER,))
    first = talk.ask("How is it in Ulm?")
    last = talk.answer(first, "sunny in Ulm", "warm in Ulm")
    history = received(gateway.simulator.exchanges[-1])

    assert [("get_weather", {"city"})] * 2 == [(name, {*given}) for _, name, given in first.calls]
    assert first.reasoning.startswith(THOUGHT) or (client == "gemini" and first.reasoning)
    assert not MARKUP.search(first.text + first.reasoning)
    assert talk.called == first.finish
    assert (talk.done, True) == (last.finish, "warm in Ulm" in last.text)
    assert ["get_weather"] * 2 == [name for _, name, _ in history.calls]
    assert history.ids == [call_id for call_id, _ in history.results]
    assert 2 == len({*first.ids})


@pytest.fixture(scope="module")
def field_log(tmp_path_factory: pytest.TempPathFactory) -> Stand:
    """Run a gateway over an upstream that repeats what was seen in the field, token by token."""
    folder = tmp_path_factory.mktemp("script")
    frames = [frame({"role": "assistant", "content": ""})]
    frames += [frame({"reasoning": one, "reasoning_content": one}) for one in KIMI_TOKENS]
    (folder / "seen.sse").write_bytes(b"".join(frames) + frame({}, "stop"))
    script = folder / "script.toml"
    script.write_text('[[replies]]\nmatch = { turn = 1 }\nraw = "seen.sse"\n', encoding="utf-8")
    with stand(script=script) as found:
        yield found


KIMI_TOKENS = (
    "The user wants files.",
    " <|tool_calls_section_begin|>",
    " <|tool_call_begin|>",
    *(" functions", ".b", "ash", ":", "15"),
    " <|tool_call_argument_begin|>",
    *(' {"', "command", '":', ' "', "ls -la", '"}'),
    " <|tool_call_end|>",
    " <|tool_calls_section_end|>",
)


def frame(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "kimi-k2"}
    return b"data: %b\n\n" % json.dumps({**chunk, "choices": [choice]}).encode()


@clients
def test_c1_k2_1_section_of_kimi_tokens_in_two_reasoning_fields_is_one_call(
    field_log: Stand, client: str
) -> None:
    bash = {**WEATHER, "name": "bash"}
    with Sdks(field_log.url) as sdks:
        talk = sdks.talk(client, "chat/kimi-k2", stream=True, tools=(bash,))
        first = talk.ask("What is here?")
        talk.answer(first, "README.md")
    history = received(field_log.simulator.exchanges[-1])

    ((call_id, name, arguments),) = first.calls
    assert ("bash", {"command": "ls -la"}) == (name, arguments)
    if client == "anthropic":
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call_id)
    else:
        assert "functions.bash:15" == call_id
    thought = "" if client == "gemini" else "The user wants files."  # it did not ask for thoughts
    assert ("", thought) == (first.text, first.reasoning.strip())
    assert talk.called == first.finish
    # The model gets its own id back: Kimi forgets how to call when it is lost.
    assert ["functions.bash:15"] == history.ids
    assert (("functions.bash:15", "README.md"),) == history.results


@clients
@upstreams
@ways
def test_ids_are_unique_over_a_conversation_whose_upstream_has_only_one(
    gateway: Stand, sdks: Sdks, client: str, upstream: str, stream: bool
) -> None:
    talk = sdks.talk(
        client, f"{upstream}/plain+ids:call_0+parallel:2", stream=stream, tools=(WEATHER,)
    )
    ids: list[str] = []
    for number in range(5):
        said = talk.ask(f"How is it in Ulm, {number}?")
        ids += said.ids
        talk.answer(said, f"{number} degrees", f"{number} knots")
    history = received(gateway.simulator.exchanges[-1])
    results = [f"{number} {unit}" for number in range(5) for unit in ("degrees", "knots")]

    assert 10 == len({*ids})
    assert "call_0" == ids[0] == history.ids[0]
    assert 10 == len({*history.ids})
    # Each result stands by its call.
    assert [*zip(history.ids, results, strict=True)] == [*history.results]


@upstreams
def test_async_clients_stream_side_by_side(gateway: Stand, upstream: str) -> None:
    model = f"{upstream}/kimi-k2+leak-reasoning"

    async def ask_messages(client: anthropic.AsyncAnthropic) -> list[str]:
        tool = {"name": "get_weather", "input_schema": WEATHER["parameters"]}
        async with client.messages.stream(
            model=model, max_tokens=1000, messages=[{"role": "user", "content": "a"}], tools=[tool]
        ) as stream:
            message = await stream.get_final_message()
        return [block.name for block in message.content if block.type == "tool_use"]

    async def ask_chat(client: openai.AsyncOpenAI) -> list[str]:
        async with client.chat.completions.stream(
            model=model,
            messages=[{"role": "user", "content": "b"}],
            tools=[{"type": "function", "function": WEATHER}],
        ) as stream:
            completion = await stream.get_final_completion()
        return [call.function.name for call in completion.choices[0].message.tool_calls]

    async def ask_responses(client: openai.AsyncOpenAI) -> list[str]:
        async with client.responses.stream(
            model=model, input="c", tools=[{"type": "function", "strict": False, **WEATHER}]
        ) as stream:
            response = await stream.get_final_response()
        return [item.name for item in response.output if item.type == "function_call"]

    async def run() -> list[list[str]]:
        url = gateway.url
        async with (
            anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as messages,
            openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as other,
        ):
            asked = (ask_messages(messages), ask_chat(other), ask_responses(other))
            return await asyncio.gather(*asked)

    assert [["get_weather"]] * 3 == asyncio.run(run())
