"""What a Gemini request becomes elsewhere, and other requests become for Gemini: one row for each field and part.

A row is carried, refused with its path, or reported as a loss; nothing is dropped silently.
"""

from typing import Any, Final, NamedTuple

import msgspec
import pytest
from msgspec import structs

from dragoman import UntranslatableError
from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import MalformedError
from dragoman.profiles import for_model, profile
from dragoman.translate_requests import translate_request
from tests.support.params import validate
from tests.support.tables import in_one_test

OTHERS: Final = tuple(name for name in DIALECT_NAMES if name != "gemini")
ABSENT: Final = object()
PIXEL: Final = "iVBORw0KGgo="
SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FUNCTION: Final = {"name": "f", "description": "F", "parametersJsonSchema": SCHEMA}
TOOLS: Final = [{"functionDeclarations": [FUNCTION]}]
LEAST: Final[dict[str, dict[str, Any]]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "x"}]},
    "anthropic": {
        "model": "m",
        "max_tokens": 4000,
        "messages": [{"role": "user", "content": "x"}],
    },
    "responses": {"model": "m", "input": "x", "store": False},
    "gemini": {"model": "m", "contents": [{"role": "user", "parts": [{"text": "x"}]}]},
}
PROFILES: Final = {
    "chat": "openai",
    "anthropic": "anthropic",
    "responses": "openai",
    "gemini": "gemini-api",
}


class Out(NamedTuple):
    """What the upstream gets."""

    fields: dict[str, Any] = {}  # values by their place; `ABSENT`: there is none
    losses: tuple[str, ...] = ()
    refused: str = ""  # the path of the field that is refused


class Row(NamedTuple):
    """One row of the matrix, for one client."""

    name: str
    client: str
    given: dict[str, Any]  # added to the least request
    outs: dict[str, Out]  # by the upstream's dialect
    model: str = "m"  # the upstream's
    profile: str = ""  # the upstream's; empty: its vendor's own
    changes: dict[str, Any] = {}  # to that profile


def config(**settings: Any) -> dict[str, Any]:
    return {"generationConfig": settings}


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": list(parts)}]}


def everywhere(out: Out) -> dict[str, Out]:
    return dict.fromkeys(OTHERS, out)


def blob(kind: str, data: str = PIXEL, **more: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": kind, "data": data, **more}}


def loop(response: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A history with a call and its result."""
    return {
        "contents": [
            {"role": "user", "parts": [{"text": "x"}]},
            {"role": "model", "parts": [{"functionCall": {"id": "k", "name": "f", "args": {}}}]},
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "k", "name": "f", "response": response, **more}}
                ],
            },
        ],
        "tools": TOOLS,
    }


def thinking(**settings: Any) -> dict[str, Any]:
    return config(maxOutputTokens=32000, thinkingConfig=settings)


DROPPED: Final = Out({"tools.1": ABSENT}, ("server_tool_dropped",))

# --- clients of Gemini ------------------------------------------------------------------------------

FROM_GEMINI: Final = [
    Row(
        "stream",
        "gemini",
        {"stream": True},
        everywhere(Out({"stream": True})),
    ),
    Row(
        "systemInstruction",
        "gemini",
        {"systemInstruction": {"role": "user", "parts": [{"text": "A"}, {"text": "B"}]}},
        {
            "chat": Out({"messages.0.role": "developer"}),
            "anthropic": Out({"system.0.text": "A", "system.1.text": "B"}),
            "responses": Out({"instructions": "A\n\nB"}),
        },
    ),
    Row(
        "systemInstruction as a string",
        "gemini",
        {"systemInstruction": "A"},
        {"anthropic": Out({"system.0.text": "A"}), "responses": Out({"instructions": "A"})},
    ),
    Row(
        "contents of one role in a row",
        "gemini",
        {"contents": [{"parts": [{"text": "A"}]}, {"role": "user", "parts": [{"text": "B"}]}]},
        {
            "chat": Out({"messages.1": ABSENT}),
            "anthropic": Out({"messages.0.content.1.text": "B", "messages.1": ABSENT}),
            "responses": Out({"input.1": ABSENT}),
        },
    ),
    Row(
        "an instruction between turns",
        "gemini",
        {"contents": [{"role": "system", "parts": [{"text": "A"}]}]},
        everywhere(Out(refused="$.contents[0].role")),
    ),
    Row(
        "temperature and topP",
        "gemini",
        config(temperature=0.5, topP=0.9),
        {
            "chat": Out({"temperature": 0.5, "top_p": 0.9}),
            "anthropic": Out({"temperature": ABSENT, "top_p": ABSENT}, ("sampling_dropped",)),
            "responses": Out({"temperature": 0.5, "top_p": 0.9}),
        },
        "claude-sonnet-4-5",
    ),
    Row(
        "topK",
        "gemini",
        config(topK=40.0),
        {
            "chat": Out({"top_k": ABSENT}, ("sampling_dropped",)),
            "anthropic": Out({"top_k": ABSENT}, ("sampling_dropped",)),
            "responses": Out({"top_k": ABSENT}, ("sampling_dropped",)),
        },
        "claude-sonnet-4-5",
    ),
    Row(
        "seed and penalties",
        "gemini",
        config(seed=7, presencePenalty=0.5, frequencyPenalty=0.25),
        {
            "chat": Out({"seed": 7, "presence_penalty": 0.5, "frequency_penalty": 0.25}),
            "anthropic": Out({"seed": ABSENT}, ("sampling_dropped",)),
            "responses": Out({"seed": ABSENT}, ("sampling_dropped",)),
        },
    ),
    Row(
        "maxOutputTokens",
        "gemini",
        config(maxOutputTokens=100),
        {
            "chat": Out({"max_completion_tokens": 100}),
            "anthropic": Out({"max_tokens": 100}),
            "responses": Out({"max_output_tokens": 100}),
        },
    ),
    Row(
        "stopSequences",
        "gemini",
        config(stopSequences=["A", "B", "C", "D", "E"]),
        {
            "chat": Out({"stop": ["A", "B", "C", "D"]}, ("stop_emulated",)),
            "anthropic": Out({"stop_sequences": ["A", "B", "C", "D", "E"]}),
            "responses": Out({"stop": ABSENT}, ("stop_emulated",)),
        },
    ),
    Row("candidateCount 1", "gemini", config(candidateCount=1), everywhere(Out({"n": ABSENT}))),
    Row(
        "candidateCount 2",
        "gemini",
        config(candidateCount=2),
        everywhere(Out(refused="$.generationConfig.candidateCount")),
    ),
    Row(
        "logprobs",
        "gemini",
        config(responseLogprobs=True, logprobs=3),
        {
            "chat": Out({"logprobs": True, "top_logprobs": 3}),
            "anthropic": Out({}, ("logprobs_dropped",)),
            "responses": Out({"top_logprobs": 3}),
        },
    ),
    Row(
        "JSON with a schema",
        "gemini",
        config(responseMimeType="application/json", responseJsonSchema=SCHEMA),
        {
            "chat": Out({"response_format.json_schema.schema": SCHEMA}),
            "anthropic": Out({"output_config.format.schema.properties": SCHEMA["properties"]}),
            "responses": Out({"text.format.schema": SCHEMA, "text.format.name": "output"}),
        },
    ),
    Row(
        "JSON with a schema in Google's language",
        "gemini",
        config(
            responseMimeType="application/json",
            responseSchema={"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}},
        ),
        {
            "chat": Out({"response_format.json_schema.schema.type": "object"}),
            "responses": Out({"text.format.schema.properties.a.type": "integer"}),
        },
    ),
    Row(
        "JSON",
        "gemini",
        config(responseMimeType="application/json"),
        {
            "chat": Out({"response_format.type": "json_object"}),
            "anthropic": Out({}, ("json_object_emulated",)),
            "responses": Out({"text.format.type": "json_object"}),
        },
    ),
    Row(
        "an enumeration",
        "gemini",
        config(
            responseMimeType="text/x.enum",
            responseSchema={"type": "STRING", "enum": ["yes", "no"]},
        ),
        everywhere(Out({}, ("schema_not_enforced",))),
    ),
    *(
        Row(
            f"a schema with the type {kind}",
            "gemini",
            config(responseJsonSchema=SCHEMA, **({"responseMimeType": kind} if kind else {})),
            everywhere(Out({}, ("schema_not_enforced", *more))),
        )
        for kind, more in (("", ()), ("text/plain", ()), ("text/csv", ("field_dropped",)))
    ),
    Row(
        "two schemas of one answer",
        "gemini",
        config(
            responseMimeType="application/json",
            responseSchema={"type": "OBJECT"},
            responseJsonSchema=SCHEMA,
        ),
        everywhere(Out(refused="$.generationConfig.responseSchema")),
    ),
    Row(
        "JSON with a schema, under the name that SDKs write",
        "gemini",
        config(responseMimeType="application/json", _responseJsonSchema=SCHEMA),
        {
            "chat": Out({"response_format.json_schema.schema": SCHEMA}),
            "responses": Out({"text.format.schema": SCHEMA}),
        },
    ),
    Row(
        "safetySettings that filter nothing",
        "gemini",
        {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]},
        everywhere(Out()),
    ),
    Row("safetySettings empty", "gemini", {"safetySettings": []}, everywhere(Out())),
    Row(
        "safetySettings that filter",
        "gemini",
        {
            "safetySettings": [
                {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}
            ]
        },
        everywhere(Out({}, ("field_dropped",))),
    ),
    Row(
        "cachedContent",
        "gemini",
        {"cachedContent": "cachedContents/1"},
        everywhere(Out(refused="$.cachedContent")),
    ),
    Row(
        "labels",
        "gemini",
        {"labels": {"team": "a"}},
        {
            "chat": Out({"metadata": ABSENT}),  # only for answers that are stored
            "anthropic": Out({"metadata": ABSENT}),
            "responses": Out({"metadata": {"team": "a"}}),
        },
    ),
    Row(
        "serviceTier standard",
        "gemini",
        {"serviceTier": "standard"},
        {
            "chat": Out({"service_tier": "default"}),
            "anthropic": Out({"service_tier": "standard_only"}),
            "responses": Out({"service_tier": "default"}),
        },
    ),
    Row(
        "serviceTier flex",
        "gemini",
        {"serviceTier": "flex"},
        {
            "chat": Out({"service_tier": "flex"}),
            "anthropic": Out({"service_tier": ABSENT}, ("field_dropped",)),
            "responses": Out({"service_tier": "flex"}),
        },
    ),
    Row(
        "serviceTier priority",
        "gemini",
        {"serviceTier": "PRIORITY"},
        {"chat": Out({"service_tier": "priority"}), "responses": Out({"service_tier": "priority"})},
    ),
    Row(
        "serviceTier of another kind",
        "gemini",
        {"serviceTier": "batch"},
        everywhere(Out({"service_tier": ABSENT}, ("field_dropped",))),
    ),
    Row(
        "mediaResolution high",
        "gemini",
        config(mediaResolution="media_resolution_high") | said(blob("image/png")),
        {
            "chat": Out({"messages.0.content.0.image_url.detail": "high"}),
            "responses": Out({"input.0.content.0.detail": "high"}),
        },
    ),
    Row(
        "mediaResolution medium",
        "gemini",
        config(mediaResolution="MEDIA_RESOLUTION_MEDIUM") | said(blob("image/png")),
        {
            "chat": Out({"messages.0.content.0.image_url.detail": ABSENT}),
            "responses": Out({"input.0.content.0.detail": "auto"}),
            "anthropic": Out({"messages.0.content.0.type": "image"}),
        },
    ),
    Row(
        "mediaResolution of a part",
        "gemini",
        said(blob("image/png") | {"mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}),
        {
            "chat": Out({"messages.0.content.0.image_url.detail": "low"}),
            "anthropic": Out({"messages.0.content.0.type": "image"}, ("field_dropped",)),
        },
    ),
    *(
        Row(
            f"mediaResolution as the number {number}",
            "gemini",
            config(mediaResolution=number) | said(blob("image/png")),
            {
                "chat": Out({"messages.0.content.0.image_url.detail": detail}),
                "responses": Out({"input.0.content.0.detail": detail or "auto"}),
            },
        )
        for number, detail in ((1, "low"), (3, "high"))
    ),
    Row(
        "mediaResolution of a part, as a number",
        "gemini",
        said(blob("image/png") | {"mediaResolution": {"level": 1}}),
        {"chat": Out({"messages.0.content.0.image_url.detail": "low"})},
    ),
    Row(
        "responseModalities as a number",
        "gemini",
        config(responseModalities=[1]),
        everywhere(Out()),
    ),
    Row(
        "responseModalities image, as a number",
        "gemini",
        config(responseModalities=[1, 2]),
        everywhere(Out(refused="$.generationConfig.responseModalities")),
    ),
    Row(
        "types of a schema as numbers",
        "gemini",
        config(
            responseMimeType="application/json",
            responseSchema={
                "type": 6,
                "properties": {"a": {"type": 5, "items": {"type": 1}}, "b": {"type": 3}},
            },
        ),
        {
            "chat": Out({"response_format.json_schema.schema.type": "object"}),
            "responses": Out(
                {
                    "text.format.schema.properties.a.items.type": "string",
                    "text.format.schema.properties.b.type": "integer",
                }
            ),
        },
    ),
    *(
        Row(f"{name} as a number", "gemini", given, everywhere(Out(refused=refused)))
        for name, given, refused in (
            # Their numbers are not published.
            (
                "thinkingLevel",
                config(thinkingConfig={"thinkingLevel": 1}),
                "$.generationConfig.thinkingConfig.thinkingLevel",
            ),
            ("serviceTier", {"serviceTier": 1}, "$.serviceTier"),
        )
    ),
    Row(
        "mediaResolution",
        "gemini",
        config(mediaResolution="MEDIA_RESOLUTION_LOW") | said(blob("image/png")),
        {
            "chat": Out({"messages.0.content.0.image_url.detail": "low"}),
            "responses": Out({"input.0.content.0.detail": "low"}),
            "anthropic": Out({"messages.0.content.0.type": "image"}, ("field_dropped",)),
        },
    ),
    Row(
        "responseModalities text",
        "gemini",
        config(responseModalities=["TEXT"]),
        everywhere(Out()),
    ),
    Row(
        "responseModalities image",
        "gemini",
        config(responseModalities=["TEXT", "IMAGE"]),
        everywhere(Out(refused="$.generationConfig.responseModalities")),
    ),
    Row(
        "speechConfig",
        "gemini",
        config(speechConfig={"languageCode": "en"}),
        everywhere(Out(refused="$.generationConfig.speechConfig")),
    ),
    Row(
        "imageConfig",
        "gemini",
        config(imageConfig={"aspectRatio": "1:1"}),
        everywhere(Out(refused="$.generationConfig.imageConfig")),
    ),
    Row("store", "gemini", {"store": True}, everywhere(Out({}, ("field_dropped",)))),
    *(
        Row(f"{name}, unknown", "gemini", given, everywhere(Out({}, (code,))))
        for name, given, code in (
            ("a field of the request", {"new": 1}, "field_dropped"),
            ("a field of the settings", config(new=1), "field_dropped"),
            ("a field of toolConfig", {"toolConfig": {"new": 1}}, "field_dropped"),
            (
                "a field of a content",
                {"contents": [{"new": 1, "parts": [{"text": "x"}]}]},
                "field_dropped",
            ),
            ("a field of a part", said({"text": "x", "new": 1}), "field_dropped"),
            ("a field of a file", said(blob("image/png", new="x")), "field_dropped"),
            (
                "a field of a result",
                loop({"output": "1"}, scheduling="SILENT"),
                "field_dropped",
            ),
            (
                "a field of the instructions",
                {"systemInstruction": {"parts": [{"text": "x", "new": 1}]}},
                "field_dropped",
            ),
            (
                "a field of thinkingConfig",
                config(thinkingConfig={"includeThoughts": False, "new": 1}),
                "field_dropped",
            ),
            (
                "a field of functionCallingConfig",
                {"tools": TOOLS, "toolConfig": {"functionCallingConfig": {"new": 1}}},
                "field_dropped",
            ),
            (
                "a field of a function",
                {"tools": [{"functionDeclarations": [FUNCTION | {"new": 1}]}]},
                "tool_option_dropped",
            ),
        )
    ),
    *(
        Row(
            f"safetySettings, threshold {threshold}",
            "gemini",
            {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": threshold}]},
            everywhere(Out()),
        )
        for threshold in ("block_none", 4, 5)
    ),
    *(
        Row(
            f"toolConfig {name}",
            "gemini",
            {"tools": TOOLS, "toolConfig": {name: value}},
            everywhere(Out({}, ("field_dropped",))),
        )
        for name, value in (
            ("retrievalConfig", {"languageCode": "de"}),
            ("includeServerSideToolInvocations", True),
        )
    ),
    Row(
        "streamFunctionCallArguments",
        "gemini",
        {
            "tools": TOOLS,
            "toolConfig": {
                "functionCallingConfig": {"mode": "AUTO", "streamFunctionCallArguments": True}
            },
        },
        everywhere(Out()),  # a whole call is legal
    ),
    Row(
        "a thought, for a model that wants it back",
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "x"}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": "Hm.", "thought": True},
                        {"functionCall": {"id": "k", "name": "f", "args": {}}},
                    ],
                },
                {
                    "role": "user",
                    "parts": [
                        {"functionResponse": {"id": "k", "name": "f", "response": {"output": "1"}}}
                    ],
                },
            ],
            "tools": TOOLS,
        },
        {"chat": Out({"messages.1.reasoning_content": "Hm."})},
        "kimi-k2-thinking",
        "moonshot",
    ),
    *(
        Row(name, "gemini", given, everywhere(Out({}, ("field_dropped",))))
        for name, given in (
            ("routingConfig", config(routingConfig={"autoMode": {}})),
            ("modelSelectionConfig", config(modelSelectionConfig={"featureSelection": "x"})),
            ("continuationToken", config(continuationToken="YQ==")),
            ("responseFormat", config(responseFormat=[{"text": {}}])),
            ("audioTimestamp", config(audioTimestamp=True)),
            ("enableEnhancedCivicAnswers", config(enableEnhancedCivicAnswers=True)),
            ("modelArmorConfig", {"modelArmorConfig": {"promptTemplateName": "x"}}),
        )
    ),
    # --- parts ---
    Row("an empty text", "gemini", said({"text": ""}, {"text": "x"}), everywhere(Out())),
    Row(
        "a thought",
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "x"}]},
                {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "A"}]},
                {"role": "user", "parts": [{"text": "y"}]},
            ]
        },
        everywhere(Out({}, ("reasoning_dropped",))),
    ),
    Row(
        "an image",
        "gemini",
        said(blob("image/png")),
        {
            "chat": Out({"messages.0.content.0.image_url.url": f"data:image/png;base64,{PIXEL}"}),
            "anthropic": Out({"messages.0.content.0.source.data": PIXEL}),
            "responses": Out({"input.0.content.0.image_url": f"data:image/png;base64,{PIXEL}"}),
        },
    ),
    Row(
        "an image that only Google reads",
        "gemini",
        said(blob("image/heic")),
        everywhere(Out(refused="$.contents[0]")),
    ),
    Row(
        "a PDF",
        "gemini",
        said(blob("application/pdf", displayName="a.pdf")),
        {
            "chat": Out({"messages.0.content.0.file.filename": "a.pdf"}),
            "anthropic": Out(
                {"messages.0.content.0.title": "a.pdf", "messages.0.content.0.type": "document"}
            ),
            "responses": Out({"input.0.content.0.filename": "a.pdf"}),
        },
    ),
    Row(
        "a text file",
        "gemini",
        said(blob("text/plain", "SGVsbG8=")),
        {
            "anthropic": Out({"messages.0.content.0.source.data": "Hello"}),
            "chat": Out(
                {"messages.0.content": "<document>\nHello\n</document>"}, ("content_flattened",)
            ),
            "responses": Out(
                {"input.0.content.0.text": "<document>\nHello\n</document>"},
                ("content_flattened",),
            ),
        },
    ),
    Row(
        "audio",
        "gemini",
        said(blob("audio/wav")),
        {
            "chat": Out({"messages.0.content.0.input_audio.format": "wav"}),
            "anthropic": Out(refused="$.contents[0]"),
        },
    ),
    Row(
        "a video",
        "gemini",
        said(blob("video/mp4")),
        everywhere(Out(refused="$.contents[0].parts[0]")),
    ),
    *(
        Row(
            name,
            "gemini",
            said({"fileData": {"fileUri": "https://a.example/a", "mimeType": kind}}),
            everywhere(Out(refused="$.contents[0].parts[0]")),
        )
        for name, kind in (
            ("the address of a video", "video/mp4"),
            ("the address of sound", "audio/mpeg"),
        )
    ),
    Row(
        "a video in a result",
        "gemini",
        loop({"output": "see"}, parts=[blob("video/mp4")]),
        everywhere(Out(refused="$.contents[2].parts[0]")),
    ),
    Row(
        "a file that is no document",
        "gemini",
        said(blob("application/zip")),
        {
            "chat": Out({"messages.0.content.0.file.filename": "document.zip"}),
            "anthropic": Out(refused="$.contents[0]"),
            "responses": Out({"input.0.content.0.filename": "document.zip"}),
        },
    ),
    Row(
        "the address of a file that is no document",
        "gemini",
        said({"fileData": {"fileUri": "https://a.example/a", "mimeType": "application/zip"}}),
        {
            "chat": Out(refused="$.contents[0]"),
            "anthropic": Out(refused="$.contents[0]"),
            "responses": Out({"input.0.content.0.file_url": "https://a.example/a"}),
        },
    ),
    Row(
        "a video of YouTube",
        "gemini",
        said({"fileData": {"fileUri": "https://youtu.be/a"}}),
        everywhere(Out(refused="$.contents[0].parts[0]")),
    ),
    Row(
        "the address of an image",
        "gemini",
        said({"fileData": {"fileUri": "https://a.example/a.png", "mimeType": "image/png"}}),
        {
            "chat": Out({"messages.0.content.0.image_url.url": "https://a.example/a.png"}),
            "anthropic": Out({"messages.0.content.0.source.url": "https://a.example/a.png"}),
            "responses": Out({"input.0.content.0.image_url": "https://a.example/a.png"}),
        },
    ),
    Row(
        "the address of a document",
        "gemini",
        said({"fileData": {"fileUri": "https://a.example/a.pdf", "mimeType": "application/pdf"}}),
        {
            "chat": Out(refused="$.contents[0]"),
            "anthropic": Out({"messages.0.content.0.source.url": "https://a.example/a.pdf"}),
            "responses": Out({"input.0.content.0.file_url": "https://a.example/a.pdf"}),
        },
    ),
    Row(
        "a file of the File API",
        "gemini",
        said({"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/1"}}),
        everywhere(Out(refused="$.contents[0]")),
    ),
    Row(
        "a file of the File API, by its name",
        "gemini",
        said({"fileData": {"fileUri": "files/1", "mimeType": "application/pdf"}}),
        everywhere(Out(refused="$.contents[0]")),
    ),
    Row(
        "a tool that Google ran",
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "x"}]},
                {
                    "role": "model",
                    "parts": [
                        {"toolCall": {"id": "1", "toolType": "GOOGLE_SEARCH", "args": {}}},
                        {"toolResponse": {"id": "1", "toolType": "GOOGLE_SEARCH"}},
                        {"text": "Two."},
                    ],
                },
                {"role": "user", "parts": [{"text": "y"}]},
            ]
        },
        everywhere(Out({}, ("content_flattened",))),
    ),
    Row(
        "a file stored at Google",
        "gemini",
        said({"fileData": {"fileUri": "gs://bucket/a.pdf", "mimeType": "application/pdf"}}),
        everywhere(Out(refused="$.contents[0]")),
    ),
    Row(
        "code that Google ran",
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "x"}]},
                {
                    "role": "model",
                    "parts": [
                        {"executableCode": {"language": "PYTHON", "code": "1+1"}},
                        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
                        {"text": "Two."},
                    ],
                },
                {"role": "user", "parts": [{"text": "y"}]},
            ]
        },
        everywhere(Out({}, ("content_flattened",))),
    ),
    Row(
        "metadata of a part",
        "gemini",
        said({"text": "x", "partMetadata": {"a": 1}, "videoMetadata": {"fps": 1}}),
        everywhere(Out()),
    ),
    # --- results ---
    *(
        Row(
            f"a result in {key}",
            "gemini",
            loop({key: "done"}),
            {
                "chat": Out({"messages.2.content": "done"}),
                "anthropic": Out({"messages.2.content.0.content": "done"}),
                "responses": Out({"input.2.output": "done"}),
            },
        )
        for key in ("output", "result", "return_value", "content")
    ),
    Row(
        "a result of the AI SDK",
        "gemini",
        loop({"name": "f", "content": "done"}),
        {"chat": Out({"messages.2.content": "done"})},
    ),
    Row(
        "a result of another shape",
        "gemini",
        loop({"a": 1, "b": [2]}),
        {
            "chat": Out({"messages.2.content": '{"a":1,"b":[2]}'}),
            "responses": Out({"input.2.output": '{"a":1,"b":[2]}'}),
        },
    ),
    Row(
        "an error of a tool",
        "gemini",
        loop({"error": "no"}),
        {
            "anthropic": Out(
                {"messages.2.content.0.is_error": True, "messages.2.content.0.content": "no"}
            ),
        },
    ),
    Row(
        "an image in a result",
        "gemini",
        loop({"output": "see"}, parts=[blob("image/png")]),
        {
            "chat": Out({"messages.2.role": "tool"}, ("tool_image_moved",)),
            "anthropic": Out({"messages.2.content.0.content.1.type": "image"}),
            "responses": Out({"input.2.output.1.type": "input_image"}),
        },
    ),
    Row(
        "an image behind a result",
        "gemini",
        {
            **loop({"output": "see"}),
            "contents": [
                *loop({})["contents"][:2],
                {
                    "parts": [
                        {
                            "functionResponse": {
                                "id": "k",
                                "name": "f",
                                "response": {"output": "see"},
                            }
                        },
                        blob("image/png"),
                        {"text": "y"},
                    ]
                },
            ],
        },
        {
            "chat": Out({"messages.2.role": "tool"}, ("tool_image_moved",)),
            "anthropic": Out(
                {
                    "messages.2.content.0.content.1.type": "image",
                    "messages.2.content.1.text": "y",
                }
            ),
            "responses": Out({"input.2.output.1.type": "input_image"}),
        },
    ),
    Row(
        "a result that is missing",
        "gemini",
        {**loop({}), "contents": [*loop({})["contents"][:2], {"parts": [{"text": "y"}]}]},
        {
            "chat": Out({"messages.2.content": "Error: [no result]"}, ("tool_result_missing",)),
            "anthropic": Out({"messages.2.content.0.is_error": True}, ("tool_result_missing",)),
            "responses": Out({"input.2.output": "Error: [no result]"}, ("tool_result_missing",)),
        },
    ),
    Row(
        "a result without a call",
        "gemini",
        {**loop({}), "contents": loop({})["contents"][2:]},
        everywhere(Out(refused="$.contents[0]")),
    ),
    Row(
        "two calls with one id",
        "gemini",
        {
            "contents": [
                {"parts": [{"text": "x"}]},
                {
                    "role": "model",
                    "parts": [{"functionCall": {"id": "k", "name": "f", "args": {}}}] * 2,
                },
                {
                    "parts": [
                        {"functionResponse": {"id": "k", "name": "f", "response": {"output": one}}}
                        for one in ("1", "2")
                    ]
                },
            ],
            "tools": TOOLS,
        },
        {
            "chat": Out({"messages.3.content": "2"}, ("call_id_renumbered",)),
            "anthropic": Out({"messages.2.content.1.content": "2"}, ("call_id_renumbered",)),
            "responses": Out({"input.4.output": "2"}, ("call_id_renumbered",)),
        },
    ),
    Row(
        "a model first",
        "gemini",
        {"contents": [{"role": "model", "parts": [{"text": "A"}]}, {"parts": [{"text": "x"}]}]},
        {
            "chat": Out({"messages.0.role": "assistant"}),
            "anthropic": Out({"messages.0.role": "user"}, ("turn_added",)),
            "responses": Out({"input.0.role": "assistant"}),
        },
    ),
    Row(
        "a model last",
        "gemini",
        {"contents": [{"parts": [{"text": "x"}]}, {"role": "model", "parts": [{"text": "A"}]}]},
        {
            "chat": Out({"messages.2.content": "Continue."}, ("user_turn_appended",)),
            "anthropic": Out({"messages.2.content.0.text": "Continue."}, ("user_turn_appended",)),
            "responses": Out({"input.1.role": "assistant", "input.2": ABSENT}),
        },
    ),
    Row("no contents", "gemini", {"contents": []}, everywhere(Out(refused="$.contents"))),
    # --- tools ---
    Row(
        "a function with JSON Schema",
        "gemini",
        {"tools": TOOLS},
        {
            "chat": Out({"tools.0.function.parameters": SCHEMA}),
            "anthropic": Out({"tools.0.input_schema": SCHEMA}),
            "responses": Out({"tools.0.parameters": SCHEMA}),
        },
    ),
    Row(
        "a function in Google's language",
        "gemini",
        {
            "tools": [
                {
                    "functionDeclarations": [
                        {
                            "name": "f",
                            "parameters": {
                                "type": "OBJECT",
                                "properties": {
                                    "b": {"type": "STRING", "nullable": True},
                                    "a": {"type": "INTEGER", "example": 1},
                                },
                                "propertyOrdering": ["a", "b"],
                            },
                        }
                    ]
                }
            ]
        },
        {
            "anthropic": Out(
                {
                    "tools.0.input_schema": {
                        "type": "object",
                        "properties": {
                            "a": {"type": "integer", "examples": [1]},
                            "b": {"type": ["string", "null"]},
                        },
                    }
                }
            )
        },
    ),
    Row(
        "a function without parameters",
        "gemini",
        {"tools": [{"functionDeclarations": [{"name": "f"}]}]},
        {"anthropic": Out({"tools.0.input_schema.type": "object"})},
    ),
    Row(
        "options of a function",
        "gemini",
        {"tools": [{"functionDeclarations": [FUNCTION | {"behavior": "BLOCKING"}]}]},
        everywhere(Out({}, ("tool_option_dropped",))),
    ),
    Row(
        "a name with a dot",
        "gemini",
        {"tools": [{"functionDeclarations": [FUNCTION | {"name": "a.b"}]}]},
        everywhere(Out({}, ("tool_renamed",))),
    ),
    *(
        Row(
            name,
            "gemini",
            {"tools": [*TOOLS, {name: {}}]},
            {
                "chat": DROPPED,
                "anthropic": Out({"tools.1.name": messages}, ("server_tool_mapped",)),
                "responses": Out({"tools.1.type": responses}, ("server_tool_mapped",))
                if responses
                else DROPPED,
            },
        )
        for name, messages, responses in (
            ("googleSearch", "web_search", "web_search"),
            ("urlContext", "web_fetch", ""),
            ("codeExecution", "code_execution", "code_interpreter"),
        )
    ),
    *(
        Row(
            f"{name} alone",
            "gemini",
            {"tools": [{name: {}}]},
            {
                "chat": Out(refused="$.tools"),
                "anthropic": Out({"tools.0.name": messages}, ("server_tool_mapped",))
                if messages
                else Out(refused="$.tools"),
                "responses": Out({"tools.0.type": responses}, ("server_tool_mapped",))
                if responses
                else Out(refused="$.tools"),
            },
        )
        for name, messages, responses in (
            ("googleSearch", "web_search", "web_search"),
            ("urlContext", "web_fetch", ""),
            ("codeExecution", "code_execution", "code_interpreter"),
            ("googleMaps", "", ""),
        )
    ),
    *(
        Row(
            f"mode {mode}",
            "gemini",
            {"tools": TOOLS, "toolConfig": {"functionCallingConfig": {"mode": mode}}},
            {
                "chat": Out({"tool_choice": word}),
                "anthropic": Out({"tool_choice.type": messages}),
                "responses": Out({"tool_choice": word}),
            },
        )
        for mode, word, messages in (
            ("AUTO", "auto", "auto"),
            ("VALIDATED", "auto", "auto"),
            ("MODE_UNSPECIFIED", "auto", "auto"),
            ("ANY", "required", "any"),
            ("NONE", "none", "none"),
        )
    ),
    Row(
        "mode ANY with one name",
        "gemini",
        {
            "tools": TOOLS,
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        },
        {
            "chat": Out({"tool_choice.function.name": "f"}),
            "anthropic": Out({"tool_choice.name": "f"}),
            "responses": Out({"tool_choice.name": "f"}),
        },
    ),
    *(
        Row(
            f"mode {mode} with several names",
            "gemini",
            {
                "tools": [
                    {"functionDeclarations": [FUNCTION | {"name": one} for one in ("f", "g", "h")]}
                ],
                "toolConfig": {
                    "functionCallingConfig": {"mode": mode, "allowedFunctionNames": ["f", "g"]}
                },
            },
            {
                "chat": Out({"tool_choice.allowed_tools.mode": word}),
                "anthropic": Out({"tools.1.name": "g", "tools.2": ABSENT}),
                "responses": Out({"tool_choice.mode": word, "tool_choice.tools.1.name": "g"}),
            },
        )
        for mode, word in (("ANY", "required"), ("VALIDATED", "auto"), (None, "auto"))
    ),
    # --- thinking ---
    Row(
        "thinkingBudget -1",
        "gemini",
        thinking(thinkingBudget=-1),
        {
            "chat": Out({"reasoning_effort": ABSENT}),
            "anthropic": Out({"thinking": {"type": "adaptive"}}),
            "responses": Out({"reasoning": ABSENT}),
        },
        "claude-sonnet-4-5",
    ),
    Row("no thinkingConfig", "gemini", {}, everywhere(Out({"thinking": ABSENT}))),
    Row(
        "thinkingBudget 0",
        "gemini",
        thinking(thinkingBudget=0),
        {
            "chat": Out({"reasoning_effort": "none"}),
            "anthropic": Out({"thinking": {"type": "disabled"}}),
            "responses": Out({"reasoning.effort": "none"}),
        },
        "claude-sonnet-4-5",
    ),
    Row(
        "thinkingBudget n",
        "gemini",
        thinking(thinkingBudget=4096),
        {
            "anthropic": Out({"thinking.type": "adaptive"}, ("thinking_converted",)),
            "responses": Out({"reasoning.effort": "medium"}, ("thinking_converted",)),
        },
        "claude-sonnet-4-5",
    ),
    *(
        Row(
            f"thinkingLevel {level}",
            "gemini",
            thinking(thinkingLevel=level),
            {
                "chat": Out({"reasoning_effort": level.lower()}),
                "responses": Out({"reasoning.effort": level.lower()}),
            },
            "gpt-5",
        )
        for level in ("MINIMAL", "LOW", "MEDIUM", "HIGH")
    ),
    Row(
        "includeThoughts",
        "gemini",
        thinking(includeThoughts=True),
        {"responses": Out({"reasoning.summary": "auto"})},
        "gpt-5",
    ),
    Row(
        "a budget and a level",
        "gemini",
        thinking(thinkingBudget=1, thinkingLevel="LOW"),
        everywhere(Out(refused="$.generationConfig.thinkingConfig")),
    ),
]

# --- upstreams that speak Gemini --------------------------------------------------------------------

CHAT_TOOL: Final = {
    "type": "function",
    "function": {"name": "f", "description": "F", "parameters": SCHEMA},
}


def to_gemini(
    name: str,
    client: str,
    given: dict[str, Any],
    fields: dict[str, Any] | None = None,
    *losses: str,
    refused: str = "",
    model: str = "gemini-3-pro",
    profile: str = "",
    **changes: Any,
) -> Row:
    outs = {"gemini": Out(fields or {}, losses, refused)}
    return Row(name, client, given, outs, model, profile, changes)


def chatted(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "x"}, *messages], **more}


def called(content: Any, *, is_error: bool = False) -> dict[str, Any]:
    """A history of Messages with a call and its result."""
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}
    return {
        "tools": [{"name": "f", "description": "F", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": "x"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}],
            },
            {"role": "user", "content": [result | ({"is_error": True} if is_error else {})]},
        ],
    }


ANSWERED: Final = "contents.2.parts.0.functionResponse"
IMAGE: Final = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
}
TO_GEMINI: Final = [
    to_gemini("stream", "chat", {"stream": True}, {"stream": True}),
    to_gemini(
        "system",
        "anthropic",
        {"system": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]},
        {"systemInstruction": {"parts": [{"text": "A"}, {"text": "B"}]}},
    ),
    to_gemini(
        "neighbours of one role",
        "chat",
        chatted({"role": "user", "content": "y"}),
        {"contents": [{"role": "user", "parts": [{"text": "x"}, {"text": "y"}]}]},
    ),
    to_gemini(
        "an assistant first",
        "chat",
        {"messages": [{"role": "assistant", "content": "A"}, {"role": "user", "content": "x"}]},
        {"contents.0.role": "user", "contents.1.role": "model"},
        "turn_added",
    ),
    to_gemini(
        "an assistant last",
        "anthropic",
        {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "A"}]},
        refused="$.messages",
    ),
    to_gemini(
        "an instruction between turns",
        "chat",
        chatted({"role": "system", "content": "A"}, {"role": "user", "content": "y"}),
        {"contents.0.role": "user", "contents.1": ABSENT},
        "system_midturn_emulated",
    ),
    to_gemini(
        "sampling",
        "chat",
        {"temperature": 0.5, "top_p": 0.9, "seed": 7, "presence_penalty": 0.5},
        {
            "generationConfig": {
                "temperature": 0.5,
                "topP": 0.9,
                "seed": 7,
                "presencePenalty": 0.5,
            }
        },
    ),
    to_gemini(
        "logit_bias",
        "chat",
        {"logit_bias": {"1": 5}},
        {"generationConfig": ABSENT},
        "sampling_dropped",
    ),
    to_gemini("top_k", "anthropic", {"top_k": 40}, {"generationConfig.topK": 40}),
    to_gemini(
        "an output limit", "chat", {"max_tokens": 100}, {"generationConfig.maxOutputTokens": 100}
    ),
    to_gemini("no output limit", "chat", {}, {"generationConfig": ABSENT}),
    to_gemini(
        "an output limit beyond the model's",
        "chat",
        {"max_tokens": 100_000},
        {"generationConfig.maxOutputTokens": 65_536},
        "value_clamped",
    ),
    to_gemini(
        "six stop sequences",
        "anthropic",
        {"stop_sequences": ["A", "B", "C", "D", "E", "F"]},
        {"generationConfig.stopSequences": ["A", "B", "C", "D", "E"]},
        "stop_emulated",
    ),
    to_gemini("n", "chat", {"n": 2}, refused="$.n"),
    to_gemini(
        "logprobs",
        "chat",
        {"logprobs": True, "top_logprobs": 3},
        {"generationConfig": {"responseLogprobs": True, "logprobs": 3}},
    ),
    to_gemini(
        "json_schema",
        "chat",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "out", "schema": SCHEMA, "strict": True},
            }
        },
        {
            "generationConfig": {
                "responseMimeType": "application/json",
                "responseJsonSchema": SCHEMA,
            }
        },
    ),
    to_gemini(
        "json_schema beside functions, Gemini 2.5",
        "chat",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "out", "schema": SCHEMA},
            },
            "tools": [CHAT_TOOL],
        },
        {"generationConfig.responseMimeType": ABSENT},
        "schema_not_enforced",
        model="gemini-2.5-pro",
    ),
    to_gemini(
        "json_object",
        "chat",
        {"response_format": {"type": "json_object"}},
        {"generationConfig": {"responseMimeType": "application/json"}},
    ),
    to_gemini("service_tier", "chat", {"service_tier": "flex"}, {"serviceTier": "flex"}),
    to_gemini(
        "service_tier default", "chat", {"service_tier": "default"}, {"serviceTier": "standard"}
    ),
    to_gemini(
        "service_tier priority", "chat", {"service_tier": "priority"}, {"serviceTier": "priority"}
    ),
    to_gemini("service_tier auto", "chat", {"service_tier": "auto"}, {"serviceTier": ABSENT}),
    to_gemini("metadata", "chat", {"metadata": {"a": "b"}}, {"labels": ABSENT}),
    to_gemini(
        "metadata at Vertex",
        "chat",
        {"metadata": {"a": "b"}},
        {"labels": {"a": "b"}},
        profile="vertex",
    ),
    to_gemini(
        "metadata that are no labels, at Vertex",
        "responses",
        {"metadata": {"A": "b"}},
        {"labels": ABSENT},
        "field_dropped",
        profile="vertex",
    ),
    to_gemini(
        "an earlier response",
        "responses",
        {"previous_response_id": "resp_1"},
        refused="$.previous_response_id",
    ),
    to_gemini("a user id", "chat", {"user": "u"}, {}, "user_id_dropped"),
    to_gemini("a cache key", "chat", {"prompt_cache_key": "k"}),
    to_gemini("verbosity", "chat", {"verbosity": "low"}, {}, "field_dropped"),
    to_gemini(
        "no parallel calls",
        "chat",
        {"tools": [CHAT_TOOL], "parallel_tool_calls": False},
        {},
        "parallel_not_enforced",
    ),
    to_gemini(
        "cache marks",
        "anthropic",
        {"system": [{"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}}]},
        {"systemInstruction": {"parts": [{"text": "A"}]}},
    ),
    # --- parts ---
    to_gemini(
        "the address of an image",
        "chat",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "https://a.example/a.png"}}
                    ],
                }
            ]
        },
        {
            "contents.0.parts.0.fileData": {
                "fileUri": "https://a.example/a.png",
                "mimeType": "image/png",
            }
        },
    ),
    to_gemini(
        "the address of a document",
        "anthropic",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "document",
                            "title": "a",
                            "source": {"type": "url", "url": "https://a.example/a"},
                        }
                    ],
                }
            ]
        },
        {
            "contents.0.parts.0.fileData": {
                "fileUri": "https://a.example/a",
                "mimeType": "application/pdf",
                "displayName": "a",
            }
        },
    ),
    to_gemini(
        "the detail of an image",
        "chat",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image_url",
                            "image_url": {
                                "url": f"data:image/png;base64,{PIXEL}",
                                "detail": "low",
                            },
                        }
                    ],
                }
            ]
        },
        {"contents.0.parts.0.inlineData": {"mimeType": "image/png", "data": PIXEL}},
        "field_dropped",
    ),
    to_gemini(
        "audio",
        "chat",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "mp3"}}
                    ],
                }
            ]
        },
        {"contents.0.parts.0.inlineData": {"mimeType": "audio/mpeg", "data": PIXEL}},
    ),
    to_gemini(
        "a document as text",
        "anthropic",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "document",
                            "title": "a",
                            "source": {"type": "text", "media_type": "text/plain", "data": "Hello"},
                        }
                    ],
                }
            ]
        },
        {"contents.0.parts.0.text": '<document title="a">\nHello\n</document>'},
        "content_flattened",
    ),
    to_gemini(
        "a result of a search",
        "anthropic",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "search_result",
                            "source": "https://a.example",
                            "title": "A",
                            "content": [{"type": "text", "text": "Hello"}],
                        }
                    ],
                }
            ]
        },
        {},
        "content_flattened",
    ),
    to_gemini(
        "a file stored at another vendor",
        "anthropic",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
                    ],
                }
            ]
        },
        refused="$.messages[0]",
    ),
    to_gemini(
        "reasoning of another vendor",
        "anthropic",
        {
            "messages": [
                {"role": "user", "content": "x"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
                        {"type": "text", "text": "A"},
                    ],
                },
                {"role": "user", "content": "y"},
            ]
        },
        {"contents.1.parts": [{"text": "A"}]},
        "opaque_dropped",
    ),
    to_gemini(
        "a refusal",
        "chat",
        chatted(
            {"role": "assistant", "content": None, "refusal": "No."},
            {"role": "user", "content": "y"},
        ),
        {"contents.1.parts": [{"text": "No."}]},
    ),
    # --- results ---
    to_gemini(
        "a result",
        "anthropic",
        called("done"),
        {f"{ANSWERED}.response": {"output": "done"}, f"{ANSWERED}.name": "f"},
        "reasoning_filled",
    ),
    *(
        to_gemini(
            f"ids of calls from {client}, {'sent' if sent else 'for a server that refuses them'}",
            client,
            given,
            {
                "contents.1.parts.0.functionCall.id": call_id if sent else ABSENT,
                f"{ANSWERED}.id": call_id if sent else ABSENT,
                f"{ANSWERED}.name": "f",
            },
            *losses,
            send_ids=sent,
        )
        for client, given, call_id, sent, losses in (
            ("anthropic", called("done"), "toolu_1", True, ("reasoning_filled",)),
            ("anthropic", called("done"), "toolu_1", False, ("reasoning_filled",)),
            ("gemini", loop({"output": "done"}), "k", True, ()),  # its bytes are forwarded
            ("gemini", loop({"output": "done"}), "k", False, ("reasoning_filled",)),
        )
    ),
    to_gemini(
        "a result of several texts",
        "anthropic",
        called([{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]),
        {f"{ANSWERED}.response": {"output": "A\nB"}},
        "reasoning_filled",
    ),
    to_gemini(
        "a result that is missing",
        "anthropic",
        {**called(""), "messages": [*called("")["messages"][:2], {"role": "user", "content": "y"}]},
        {
            f"{ANSWERED}.response": {"error": "[no result]"},
            "contents.2.parts.1.text": "y",
        },
        "tool_result_missing",
        "reasoning_filled",
    ),
    to_gemini(
        "a result without a call",
        "chat",
        chatted({"role": "tool", "tool_call_id": "z", "content": "A"}),
        refused="$.messages[1]",
    ),
    to_gemini(
        "an error of a tool",
        "anthropic",
        called("no", is_error=True),
        {f"{ANSWERED}.response": {"error": "no"}},
        "reasoning_filled",
    ),
    to_gemini(
        "an empty result",
        "anthropic",
        called([]),
        {f"{ANSWERED}.response": {"output": ""}},
        "reasoning_filled",
    ),
    to_gemini(
        "an image in a result",
        "anthropic",
        called([IMAGE]),
        {f"{ANSWERED}.parts.0.inlineData.data": PIXEL},
        "reasoning_filled",
    ),
    to_gemini(
        "an image in a result, Gemini 2.5",
        "anthropic",
        called([IMAGE]),
        {f"{ANSWERED}.parts": ABSENT, "contents.2.parts.2.inlineData.data": PIXEL},
        "tool_image_moved",
        model="gemini-2.5-pro",
    ),
    # --- tools ---
    to_gemini(
        "a function",
        "chat",
        {"tools": [CHAT_TOOL]},
        {"tools": [{"functionDeclarations": [FUNCTION]}], "toolConfig": ABSENT},
    ),
    to_gemini(
        "`$schema`",
        "anthropic",
        {
            "tools": [
                {
                    "name": "f",
                    "description": "F",
                    "input_schema": SCHEMA | {"$schema": "http://json-schema.org/draft-07/schema#"},
                }
            ]
        },
        {"tools": [{"functionDeclarations": [FUNCTION]}]},
    ),
    to_gemini(
        "a function without parameters",
        "anthropic",
        {"tools": [{"name": "f", "description": "F", "input_schema": {"type": "object"}}]},
        {"tools": [{"functionDeclarations": [{"name": "f", "description": "F"}]}]},
    ),
    *(
        to_gemini(
            f"a function without parameters but with `{word}`",
            "chat",
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]},
            {"tools": [{"functionDeclarations": [{"name": "f"}]}]},
            *losses,
        )
        for word, schema, losses in (
            ("required", {"type": "object", "properties": {}, "required": []}, ()),
            (
                "description",
                {"type": "object", "description": "Nothing to give."},
                ("schema_rewritten",),
            ),
        )
    ),
    to_gemini(
        "a name that begins with a digit",
        "chat",
        {"tools": [{"type": "function", "function": CHAT_TOOL["function"] | {"name": "1f"}}]},
        {"tools.0.functionDeclarations.0.name": "_1f_a134a40b"},
        "tool_renamed",
    ),
    to_gemini(
        "a name with a dot",
        "chat",
        {"tools": [{"type": "function", "function": CHAT_TOOL["function"] | {"name": "a.f"}}]},
        {"tools.0.functionDeclarations.0.name": "a.f"},
    ),
    *(
        to_gemini(
            f"allowed tools, {mode}",
            "chat",
            {
                "tools": [
                    CHAT_TOOL,
                    {"type": "function", "function": CHAT_TOOL["function"] | {"name": "g"}},
                ],
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {
                        "mode": mode,
                        "tools": [{"type": "function", "function": {"name": "f"}}],
                    },
                },
            },
            fields,
            *losses,
        )
        for mode, fields, losses in (
            (
                "auto",
                {
                    "toolConfig.functionCallingConfig": {"mode": "AUTO"},
                    "tools.0.functionDeclarations.1": ABSENT,
                },
                ("tool_choice_narrowed",),
            ),
            (
                "required",
                {
                    "toolConfig.functionCallingConfig": {
                        "mode": "ANY",
                        "allowedFunctionNames": ["f"],
                    },
                    "tools.0.functionDeclarations.1.name": "g",
                },
                (),
            ),
        )
    ),
    to_gemini(
        "a strict function",
        "chat",
        {"tools": [{"type": "function", "function": CHAT_TOOL["function"] | {"strict": True}}]},
        {},
        "tool_option_dropped",
    ),
    to_gemini(
        "a custom tool",
        "responses",
        {"tools": [{"type": "custom", "name": "patch", "description": "P"}]},
        {"tools.0.functionDeclarations.0.parametersJsonSchema.required": ["input"]},
    ),
    to_gemini(
        "a search",
        "anthropic",
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"tools": [{"googleSearch": {}}]},
        "server_tool_mapped",
    ),
    to_gemini(
        "fetching pages",
        "anthropic",
        {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
        {"tools": [{"urlContext": {}}]},
        "server_tool_mapped",
    ),
    to_gemini(
        "running code",
        "responses",
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        {"tools": [{"codeExecution": {}}]},
        "server_tool_mapped",
        "tool_option_dropped",  # where it runs
    ),
    *(
        to_gemini(
            f"tool_choice {word}",
            "chat",
            {"tools": [CHAT_TOOL], "tool_choice": choice},
            {"toolConfig.functionCallingConfig": expected},
        )
        for word, choice, expected in (
            ("auto", "auto", {"mode": "AUTO"}),
            ("required", "required", {"mode": "ANY"}),
            ("none", "none", {"mode": "NONE"}),
            (
                "by name",
                {"type": "function", "function": {"name": "f"}},
                {"mode": "ANY", "allowedFunctionNames": ["f"]},
            ),
        )
    ),
    # --- thinking ---
    *(
        to_gemini(
            f"effort {effort}, Gemini 3",
            "chat",
            {"reasoning_effort": effort},
            {"generationConfig.thinkingConfig.thinkingLevel": level},
            *losses,
        )
        for effort, level, losses in (
            ("minimal", "LOW", ("effort_adjusted",)),  # only Flash models have a lower one
            ("low", "LOW", ()),
            ("medium", "MEDIUM", ()),
            ("high", "HIGH", ()),
            ("xhigh", "HIGH", ("effort_adjusted",)),
        )
    ),
    *(
        to_gemini(
            f"effort {effort}, Gemini 2.5",
            "chat",
            {"reasoning_effort": effort},
            {"generationConfig.thinkingConfig.thinkingBudget": budget},
            "thinking_converted",
            model="gemini-2.5-flash",
        )
        for effort, budget in (
            ("minimal", 1024),
            ("low", 2048),
            ("medium", 8192),
            ("high", 16_384),
            ("xhigh", 24_576),
        )
    ),
    to_gemini(
        "thinking off, Gemini 2.5 flash",
        "anthropic",
        {"thinking": {"type": "disabled"}},
        {"generationConfig.thinkingConfig": {"thinkingBudget": 0}},
        model="gemini-2.5-flash",
    ),
    to_gemini(
        "thinking off, Gemini 2.5 pro",
        "anthropic",
        {"thinking": {"type": "disabled"}},
        {"generationConfig.thinkingConfig": {"thinkingBudget": 128}},
        "effort_adjusted",
        model="gemini-2.5-pro",
    ),
    *(
        to_gemini(
            f"thinking off, {model}",
            "anthropic",
            {"thinking": {"type": "disabled"}},
            {"generationConfig.thinkingConfig": {"thinkingLevel": level}},
            "effort_adjusted",
            model=model,
        )
        for model, level in (("gemini-3-pro", "LOW"), ("gemini-3-flash", "MINIMAL"))
    ),
    to_gemini(
        "effort minimal, Gemini 3 Flash",
        "chat",
        {"reasoning_effort": "minimal"},
        {"generationConfig.thinkingConfig.thinkingLevel": "MINIMAL"},
        model="gemini-3-flash",
    ),
    *(
        to_gemini(
            f"adaptive thinking, {model}",
            "anthropic",
            {"thinking": {"type": "adaptive"}},
            {"generationConfig.thinkingConfig": expected},
            model=model,
        )
        for model, expected in (
            ("gemini-2.5-pro", {"thinkingBudget": -1}),
            ("gemini-3-pro", ABSENT),
        )
    ),
    to_gemini(
        "a budget, Gemini 3",
        "anthropic",
        {"max_tokens": 64_000, "thinking": {"type": "enabled", "budget_tokens": 20_000}},
        {"generationConfig.thinkingConfig.thinkingLevel": "HIGH"},
        "thinking_converted",
    ),
    to_gemini(
        "a budget beyond the model's",
        "anthropic",
        {"max_tokens": 64_000, "thinking": {"type": "enabled", "budget_tokens": 40_000}},
        {"generationConfig.thinkingConfig.thinkingBudget": 24_576},
        "value_clamped",
        model="gemini-2.5-flash",
    ),
    to_gemini(
        "a summary of the reasoning",
        "responses",
        {"reasoning": {"effort": "low", "summary": "auto"}},
        {"generationConfig.thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"}},
    ),
    to_gemini(
        "thinking of a model that cannot think",
        "chat",
        {"reasoning_effort": "high"},
        {"generationConfig": ABSENT},
        "thinking_dropped",
        model="gemma-3",
    ),
]

# --- the tests ----------------------------------------------------------------------------------------

CASES: Final = [
    pytest.param(row, upstream, id=f"{row.client} to {upstream}: {row.name}")
    for row in (*FROM_GEMINI, *TO_GEMINI)
    for upstream in row.outs
]


def at(body: Any, place: str) -> Any:
    """Return the value at a place such as `messages.0.content`."""
    for key in place.split("."):
        try:
            body = body[int(key)] if isinstance(body, list) else body[key]
        except (KeyError, IndexError):
            return ABSENT
    return body


@in_one_test
@pytest.mark.parametrize(("row", "upstream"), CASES)
def test_a_row_of_the_matrix_is_carried_refused_or_reported(row: Row, upstream: str) -> None:
    out = row.outs[upstream]
    given = msgspec.json.encode(LEAST[row.client] | row.given)

    def translate() -> tuple[dict[str, Any], set[str]]:
        known = for_model(profile(row.profile or PROFILES[upstream]), row.model, None, upstream)
        known = structs.replace(known, **row.changes)
        done = translate_request(
            given, source=row.client, target=upstream, profile=known, model=row.model
        )
        return msgspec.json.decode(done.body), {loss.code for loss in done.losses}

    if out.refused:
        with pytest.raises((MalformedError, UntranslatableError)) as caught:
            translate()
        assert caught.value.path.startswith(out.refused)
        return
    body, losses = translate()
    assert out.fields == {place: at(body, place) for place in out.fields}
    assert set(out.losses) == losses - {"max_tokens_defaulted"}  # Messages needs a limit
    validate(upstream, body)
