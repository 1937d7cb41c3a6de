"""Conversations through the vendors' own SDKs: one way to talk, whatever the client's dialect."""

import json
from typing import Any, NamedTuple, Self

import anthropic
import httpx2
import openai

Json = dict[str, Any]


class Said(NamedTuple):
    """One answer, as the SDK gave it."""

    text: str
    reasoning: str
    calls: tuple[tuple[str, str, Json], ...]  # id, name, arguments
    finish: str
    model: str
    whole: Json  # the answer itself

    @property
    def ids(self) -> list[str]:
        return [call_id for call_id, _, _ in self.calls]


class Talk:
    """One conversation: `ask`, then `answer` what the model called."""

    done = ""  # finish of an answer without calls
    called = ""  # and of one with calls

    def __init__(
        self, client: Any, model: str, *, stream: bool, tools: tuple[Json, ...] = (), **more: Any
    ) -> None:
        self._client = client
        self._stream = stream
        self._model = model
        self._fields = {"model": model, **self._declared(tools), **more}
        self.history: list[Any] = []

    def ask(self, text: str) -> Said:
        self.history.append({"role": "user", "content": text})
        return self._turn()

    def answer(self, said: Said, *results: str) -> Said:
        self.history += self._results(said, results)
        return self._turn()

    def _declared(self, tools: tuple[Json, ...]) -> Json:
        return {"tools": [self._tool(tool) for tool in tools]} if tools else {}

    def _turn(self) -> Said:
        raise NotImplementedError

    def _tool(self, tool: Json) -> Json:
        raise NotImplementedError

    def _results(self, said: Said, results: tuple[str, ...]) -> list[Json]:
        raise NotImplementedError


class MessagesTalk(Talk):
    done, called = "end_turn", "tool_use"

    def _turn(self) -> Said:
        fields = {"max_tokens": 200_000, "messages": self.history, **self._fields}
        # Without it the SDK refuses long answers that are not streamed.
        fields.setdefault("timeout", 60)
        if self._stream:
            with self._client.messages.stream(**fields) as stream:
                message = stream.get_final_message()
        else:
            message = self._client.messages.create(**fields)
        content = [block.to_dict(mode="json") for block in message.content]
        self.history.append({"role": "assistant", "content": content})
        return Said(
            "".join(one["text"] for one in content if one["type"] == "text"),
            "".join(one["thinking"] for one in content if one["type"] == "thinking"),
            tuple(
                (one["id"], one["name"], one["input"])
                for one in content
                if one["type"] == "tool_use"
            ),
            message.stop_reason,
            message.model,
            message.to_dict(mode="json"),
        )

    def _tool(self, tool: Json) -> Json:
        return {
            "name": tool["name"],
            "description": tool.get("description", ""),
            "input_schema": tool["parameters"],
        }

    def _results(self, said: Said, results: tuple[str, ...]) -> list[Json]:
        blocks = [
            {"type": "tool_result", "tool_use_id": call_id, "content": result}
            for call_id, result in zip(said.ids, results, strict=True)
        ]
        return [{"role": "user", "content": blocks}]


class ChatTalk(Talk):
    done, called = "stop", "tool_calls"
    keeps_reasoning = True  # most clients send it back as they got it

    def _turn(self) -> Said:
        fields = {"messages": self.history, **self._fields}
        completions = self._client.chat.completions
        if self._stream:
            fields["stream_options"] = {"include_usage": True}
            with completions.stream(**fields) as stream:
                completion = stream.until_done().get_final_completion()
        else:
            completion = completions.create(**fields)
        whole = completion.to_dict(mode="json")
        (choice,) = whole["choices"]
        message = choice["message"]
        self.history.append(self._echoed(message))
        return Said(
            message.get("content") or "",
            message.get("reasoning_content") or "",
            tuple(
                (one["id"], one["function"]["name"], json.loads(one["function"]["arguments"]))
                for one in message.get("tool_calls") or ()
            ),
            choice["finish_reason"],
            whole["model"],
            whole,
        )

    def _echoed(self, message: Json) -> Json:
        kept = ["role", "content", "tool_calls"]
        if self.keeps_reasoning:
            kept.append("reasoning_content")
        return {name: message[name] for name in kept if message.get(name) is not None}

    def _tool(self, tool: Json) -> Json:
        return {"type": "function", "function": tool}

    def _results(self, said: Said, results: tuple[str, ...]) -> list[Json]:
        return [
            {"role": "tool", "tool_call_id": call_id, "content": result}
            for call_id, result in zip(said.ids, results, strict=True)
        ]


class ForgetfulChatTalk(ChatTalk):
    """A client that does not send reasoning back."""

    keeps_reasoning = False


class ResponsesTalk(Talk):
    done = called = "completed"

    def _turn(self) -> Said:
        fields = {
            "input": self.history,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            **self._fields,
        }
        if self._stream:
            with self._client.responses.stream(**fields) as stream:
                response = stream.until_done().get_final_response()
        else:
            response = self._client.responses.create(**fields)
        whole = response.to_dict(mode="json")
        self.history += whole["output"]
        return responses_said(whole)

    def _tool(self, tool: Json) -> Json:
        return {"type": "function", "strict": False, **tool}

    def _results(self, said: Said, results: tuple[str, ...]) -> list[Json]:
        return [
            {"type": "function_call_output", "call_id": call_id, "output": result}
            for call_id, result in zip(said.ids, results, strict=True)
        ]


def responses_said(whole: Json) -> Said:
    """Read a response of the Responses dialect."""
    output = whole["output"]
    texts = [
        part["text"]
        for item in output
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
    ]
    thoughts = [
        part["text"]
        for item in output
        if item["type"] == "reasoning"
        for part in (*item["summary"], *(item.get("content") or ()))
    ]
    calls = tuple(
        (item["call_id"], item["name"], json.loads(item["arguments"]))
        for item in output
        if item["type"] == "function_call"
    )
    return Said("".join(texts), "".join(thoughts), calls, whole["status"], whole["model"], whole)


class GeminiTalk(Talk):
    """A client of `generateContent` that reads as strictly as Google's SDKs: `data: ` lines and blank ones."""

    done = called = "STOP"
    drops_thoughts = False

    def _turn(self) -> Said:
        fields = {"contents": self.history, **self._fields}
        model = fields.pop("model")
        verb = "streamGenerateContent?alt=sse" if self._stream else "generateContent"
        got = self._client.post(f"/v1beta/models/{model}:{verb}", json=fields)
        got.raise_for_status()
        if not self._stream:
            chunks = [got.json()]
        else:
            lines = [line for line in got.text.splitlines() if line]
            assert all(line.startswith("data: {") for line in lines), lines
            chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
        parts = [part for chunk in chunks for part in _content(chunk)]
        kept = [part for part in parts if not (self.drops_thoughts and part.get("thought"))]
        self.history.append({"role": "model", "parts": kept})
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        return Said(
            "".join(part.get("text", "") for part in parts if not part.get("thought")),
            "".join(part["text"] for part in parts if part.get("thought")),
            tuple((one["id"], one["name"], one["args"]) for one in calls),
            chunks[-1]["candidates"][0]["finishReason"],
            chunks[-1]["modelVersion"],
            chunks[-1],
        )

    def ask(self, text: str) -> Said:
        self.history.append({"role": "user", "parts": [{"text": text}]})
        return self._turn()

    def _declared(self, tools: tuple[Json, ...]) -> Json:
        listed = [self._tool(tool) for tool in tools]
        shown = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
        # Thoughts are shown to clients that ask for them, and simulated models then think.
        thinking = shown if "+think" in self._model else {}
        return thinking | ({"tools": [{"functionDeclarations": listed}]} if tools else {})

    def _tool(self, tool: Json) -> Json:
        return {
            "name": tool["name"],
            "description": tool.get("description", ""),
            "parametersJsonSchema": tool["parameters"],
        }

    def _results(self, said: Said, results: tuple[str, ...]) -> list[Json]:
        parts = [
            {"functionResponse": {"id": call_id, "name": name, "response": {"output": result}}}
            for (call_id, name, _), result in zip(said.calls, results, strict=True)
        ]
        return [{"role": "user", "parts": parts}]


class GeminiCliTalk(GeminiTalk):
    """A client that drops thoughts and keeps the signatures of calls, as Gemini CLI does."""

    drops_thoughts = True


def _content(chunk: Json) -> list[Json]:
    (candidate,) = chunk["candidates"]
    assert "model" == candidate["content"]["role"]
    return candidate["content"]["parts"]


TALKS: dict[str, type[Talk]] = {
    "gemini": GeminiTalk,
    "chat": ChatTalk,
    "anthropic": MessagesTalk,
    "responses": ResponsesTalk,
}


class Sdks:
    """The SDKs' clients for one gateway."""

    def __init__(self, url: str, key: str = "x") -> None:
        # There is no TLS here; each client would load the system's authorities, which takes 30 ms.
        self.openai = openai.OpenAI(
            base_url=f"{url}/v1",
            api_key=key,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(verify=False),
        )
        self.anthropic = anthropic.Anthropic(
            base_url=url,
            api_key=key,
            max_retries=0,
            http_client=anthropic.DefaultHttpxClient(verify=False),
        )

        self.google = httpx2.Client(
            base_url=url, headers={"x-goog-api-key": key}, timeout=60, verify=False
        )

    def talk(self, dialect: str, model: str, **how: Any) -> Talk:
        """Begin a conversation."""
        return TALKS[dialect](self.of(dialect), model, **how)

    def of(self, dialect: str) -> Any:
        clients = {"anthropic": self.anthropic, "gemini": self.google}
        return clients.get(dialect, self.openai)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.openai.close()
        self.anthropic.close()
        self.google.close()
