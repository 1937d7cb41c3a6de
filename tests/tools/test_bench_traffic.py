"""The requests and the responses of the benchmarks are legal, so that gateways are measured with normal traffic."""

import re

import pytest
from tools.bench.traffic import MARK, PROOF, WORKLOADS, answer, request_bytes

from dragoman.checker.checker import check
from dragoman.dialects import DIALECT_NAMES

STREAMS = [name for name, one in WORKLOADS.items() if one.stream]
_CHUNK_HEAD = re.compile(rb"(?:^|\r\n)[0-9a-f]+\r\n")


@pytest.mark.parametrize("case", [one for one in STREAMS if one != "qwen"])
@pytest.mark.parametrize("upstream", DIALECT_NAMES)
def test_streams_of_the_upstream_are_legal(case: str, upstream: str) -> None:
    body = answer(case, upstream).partition(b"\r\n\r\n")[2]
    stream = _CHUNK_HEAD.sub(b"", body)

    assert [] == list(check(upstream, stream).violations)


@pytest.mark.parametrize("client", DIALECT_NAMES)
def test_request_carries_the_mark_of_its_workload_in_every_dialect(client: str) -> None:
    request = request_bytes("dense", 1, client)

    assert b"dense" == MARK.search(request)[1]
    assert 18_000 < len(request) < 20_000


def test_long_conversation_has_a_megabyte() -> None:
    assert 1_000_000 < len(request_bytes("long", 1)) < 1_050_000


@pytest.mark.parametrize("upstream", DIALECT_NAMES)
def test_short_stream_has_the_call_that_clients_look_for(upstream: str) -> None:
    assert PROOF[upstream] in answer("agent", upstream)
    assert PROOF[upstream] not in answer("dense", upstream)
