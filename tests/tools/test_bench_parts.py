"""The counts of instructions name the part of the gateway, and the library, in which they were executed."""

import pytest
from tools.bench.instructions import library_counts
from tools.bench.parts import part_of

_PROFILE = """
ob=(1) /usr/lib/libpython3.11.so.1.0
fl=(1) ceval.c
fn=(1) eval
12 100
+3 20
cob=(2) /venv/msgspec/_core.cpython-311-x86_64-linux-gnu.so
cfn=(2) decode
calls=7 0
* 900
13 5
ob=(2)
fn=(2)
0 800
"""


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/x/site-packages/aiohttp/web_protocol.py", "HTTP with the client"),
        ("/x/src/dragoman/transport/reply.py", "HTTP with the upstream"),
        ("/x/src/dragoman/dialects/chat/history_writer.py", "writing it for the upstream"),
        ("/x/src/dragoman/dialects/gemini/answer_reader.py", "reading the answer"),
        ("/x/src/dragoman/gateway/request_context.py", "attempts, retries, deadlines"),
        ("/usr/lib/python3.11/asyncio/timeouts.py", "Python's own library"),
        ("<frozen abc>", "other"),
    ],
)
def test_a_file_belongs_to_one_part(path: str, part: str) -> None:
    assert part_of(path) == part


def test_what_a_library_executes_is_counted_there_and_not_where_it_is_called() -> None:
    assert library_counts(_PROFILE) == {"libpython3": 125, "_core": 800}
