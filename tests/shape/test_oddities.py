"""What real servers were seen to do against their dialect's rules: each has a corpus case."""

import pytest

from tests.support.corpus import ROOT

ODDITIES = {
    "llama.cpp: the first content is null": "chat/oddity_llama_cpp",
    "llama.cpp: ids of 32 bare characters": "chat/oddity_llama_cpp",
    "llama.cpp: a name and the first bytes of arguments at once": "chat/oddity_llama_cpp",
    "llama.cpp: white space in arguments": "chat/oddity_llama_cpp",
    "llama.cpp: timings beside the counts": "chat/oddity_llama_cpp",
    "llama.cpp: an error in a stream": "chat/oddity_llama_cpp_error",
    "llama.cpp: an error with a number as code": "errors/oddity_llama_cpp_number_as_code",
    "llama.cpp: an id of Chat at /v1/messages": "anthropic/oddity_llama_cpp_call",
    "llama.cpp: all blocks end together": "anthropic/oddity_llama_cpp_two_calls",
    "llama.cpp: no message_start": "anthropic/oddity_llama_cpp_no_message_start",
    "llama.cpp: events without numbers": "responses/oddity_llama_cpp_two_calls",
    "llama.cpp: a cut call that is complete": "responses/b10_oddity_llama_cpp_cut_call",
    "transformers serve: no [DONE]": "chat/oddity_transformers_serve",
    "transformers serve: counts unasked": "chat/oddity_transformers_serve",
    "transformers serve: no finish_reason": "chat/oddity_transformers_serve",
    "transformers serve: calls in one piece": "chat/oddity_transformers_serve_call",
    "transformers serve: no names of events": "responses/oddity_transformers_serve_no_event_names",
    "transformers serve: two items of one index": "responses/oddity_transformers_serve_call",
    "transformers serve: plain text for a failure": "errors/oddity_transformers_serve_plain_text",
    "LiteLLM: stop although calls were made": "chat/oddity_litellm_mock",
    "LiteLLM: counts beside an empty choice": "chat/oddity_litellm_mock",
    "LiteLLM: an error alone in a stream of Chat": "chat/oddity_litellm_error",
    "LiteLLM: an error alone in a stream of Responses": "responses/oddity_litellm_error",
    "LiteLLM: an error's body is an event": "errors/oddity_litellm_error_as_event",
    "LiteLLM: a body for a stream": "anthropic/oddity_litellm_plain_body_for_a_stream",
    "LiteLLM: items sent twice": "responses/oddity_litellm_whole_items_before_deltas",
    "LiteLLM: a text ends late": "responses/oddity_litellm_text_ends_after_the_call",
}


@pytest.mark.parametrize("oddity", ODDITIES)
def test_oddity_of_a_server_has_a_case_that_names_it(oddity: str) -> None:
    assert (ROOT / ODDITIES[oddity] / "case.md").read_text("utf-8").startswith("# ")


def test_no_case_of_an_oddity_is_missing_here() -> None:
    cases = {f"{one.parent.name}/{one.name}" for one in ROOT.glob("*/*oddity_*")}

    assert cases == set(ODDITIES.values())
