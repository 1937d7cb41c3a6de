"""Both spellings of a field are one; free JSON keeps its own."""

import json

from dragoman.dialects.gemini.schema import camel_request


def test_camel_case_passes_byte_for_byte():
    body = b'{ "contents" : [],"generationConfig":{"topP": 1.0} }'

    assert body is camel_request(body)


def test_snake_case_becomes_camel_case_on_every_known_level():
    body = {
        "system_instruction": {"parts": [{"text": "x"}]},
        "contents": [
            {
                "parts": [
                    {"function_call": {"name": "f", "args": {"a_b": 1}}, "thought_signature": "x"},
                    {"inline_data": {"mime_type": "image/png", "data": "aa"}},
                    {"function_response": {"name": "f", "response": {"the_result": 2}}},
                ]
            }
        ],
        "tools": [{"function_declarations": [{"name": "f", "parameters_json_schema": {"a_b": 1}}]}],
        "tool_config": {"function_calling_config": {"allowed_function_names": ["f"]}},
        "generation_config": {
            "max_output_tokens": 5,
            "thinking_config": {"include_thoughts": True},
        },
    }

    parts = [
        {"functionCall": {"name": "f", "args": {"a_b": 1}}, "thoughtSignature": "x"},
        {"inlineData": {"mimeType": "image/png", "data": "aa"}},
        {"functionResponse": {"name": "f", "response": {"the_result": 2}}},
    ]
    assert {
        "systemInstruction": {"parts": [{"text": "x"}]},
        "contents": [{"parts": parts}],
        "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"a_b": 1}}]}],
        "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["f"]}},
        "generationConfig": {"maxOutputTokens": 5, "thinkingConfig": {"includeThoughts": True}},
    } == json.loads(camel_request(json.dumps(body).encode()))
