"""What an exchange knows: ids of calls that its request did not use, and state that it can carry."""

from msgspec import structs

from dragoman.context import Exchange
from dragoman.envelopes import Sealer
from dragoman.profiles import profile
from dragoman.translate_requests import read_request

GENERIC = profile("generic")
BODY = b"""{"model": "m", "messages": [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "done"}]}"""


def test_calls_of_an_answer_get_no_id_that_the_request_used() -> None:
    request = read_request(BODY, source="chat").request
    ids = Exchange(profile=GENERIC, request=request).call_ids

    assert 3 == len({"call_1", ids.of(0, "call_1"), ids.of(1, "call_1")})
    assert "call_1" == Exchange(profile=GENERIC).call_ids.of(0, "call_1")


def test_ids_that_were_given_belong_to_one_exchange() -> None:
    one, other = Exchange(profile=GENERIC), Exchange(profile=GENERIC)

    one.given.add("resp_1")

    assert ({"resp_1"}, set()) == (one.given, other.given)


def test_signatures_of_calls_are_expected_only_where_they_can_be_carried() -> None:
    signing = Exchange(profile=profile("gemini"), sealer=Sealer(b"key"))

    assert signing.expects_call_signatures
    assert not structs.replace(signing, sealer=None).expects_call_signatures
    assert not structs.replace(signing, profile=profile("vllm")).expects_call_signatures
