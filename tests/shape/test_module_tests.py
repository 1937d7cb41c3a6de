"""Each module's tests are found by its name: `test_MODULE.py`, or `test_MODULE_….py` for a part of them.

Modules that are one subject share the file that `SHARED` names.
"""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "dragoman"
MODULES = sorted(
    path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if not path.name.startswith("_")
)
FILES = sorted(path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))
STEMS = Counter(module.stem for module in MODULES)


class Shared(NamedTuple):
    file: str  # below tests
    modules: tuple[str, ...]  # below src/dragoman; a folder means all of its modules
    reason: str


SHARED = (
    Shared(
        "unit/toolcalls/test_parser_corpus.py",
        ("toolcalls/bodies/", "toolcalls/formats/"),
        "formats are data that one engine runs; their tests are the cases of tests/corpus/toolcalls",
    ),
    Shared(
        "unit/toolcalls/test_format_suite.py",
        ("toolcalls/format_damage.py", "toolcalls/format_samples.py"),
        "the texts and the damage from which the suite generates its checks",
    ),
    Shared(
        "unit/toolcalls/test_stage.py",
        ("toolcalls/native_blocks.py",),
        "the blocks that the stage emits",
    ),
    Shared(
        "unit/checker/test_responses.py",
        ("checker/responses_fields.py", "checker/responses_items.py"),
        "tables of the rules for Responses",
    ),
    Shared("unit/checker/test_checker.py", ("checker/findings.py",), "what the checker returns"),
    Shared(
        "unit/dialects/anthropic/test_answer_reader.py",
        ("dialects/anthropic/block_reader.py", "dialects/anthropic/schema.py"),
        "Messages numbers its blocks, so its block reader has few decisions; shapes are read by readers",
    ),
    Shared(
        "unit/dialects/chat/test_answer_writer.py",
        ("dialects/chat/body_writer.py",),
        "each test writes a stream and the body of the same answer",
    ),
    Shared(
        "unit/dialects/chat/test_request_reader_and_writer.py",
        ("dialects/chat/schema.py", "dialects/chat/tools_reader.py"),
        "tools and shapes are read with the request that has them",
    ),
    Shared(
        "unit/dialects/responses/test_answer_reader.py",
        ("dialects/responses/block_reader.py", "dialects/responses/schema.py"),
        "which item a delta belongs to shows in the events of the whole stream",
    ),
    Shared(
        "unit/dialects/responses/test_answer_writer.py",
        ("dialects/responses/body_writer.py",),
        "the last event of a stream is the body",
    ),
    Shared(
        "unit/dialects/responses/test_request_reader.py",
        ("dialects/responses/history_reader.py", "dialects/responses/tools_reader.py"),
        "items of the input declare tools and tools appear inside the input",
    ),
    Shared(
        "unit/dialects/responses/test_request_writer.py",
        ("dialects/responses/history_writer.py", "dialects/responses/tools_writer.py"),
        "the same, on the way out",
    ),
    Shared(
        "shape/test_fourth_dialect.py",
        ("dialects/dialect.py",),
        "the fields of a dialect, filled in by a toy dialect that every shell uses",
    ),
    Shared(
        "gateway/test_state.py",
        (
            "gateway/state/state.py",
            "gateway/state/redis_limits.py",
            "gateway/responses/redis_tables.py",
        ),
        "two gateways on one Redis behave as one, and go on without it",
    ),
    Shared(
        "unit/gateway/config/test_read.py",
        ("gateway/config/settings.py", "gateway/config/formats.py"),
        "the declarations of what is read",
    ),
    Shared(
        "inspector/test_exchange.py",
        ("inspector/recordings.py",),
        "the view of a recording loads and replays it",
    ),
    Shared(
        "inspector/test_conversations.py",
        ("inspector/conversation_view.py",),
        "one agent's run is recorded, listed and shown",
    ),
    Shared("mcp_server/test_tools.py", ("mcp_server/tool_types.py",), "the schemas of the tools"),
    Shared(
        "probe/test_checks.py",
        ("probe/checks/", "probe/finding.py"),
        "one table: each quirk of the simulator, and the check that finds it",
    ),
    Shared(
        "unit/profiles/test_catalogue.py",
        ("profiles/profile.py",),
        "every field of a profile, by the profiles that set it",
    ),
    Shared(
        "unit/simulator/test_answer_writers.py",
        ("simulator/answer_writers/", "simulator/play.py"),
        "one response in every dialect, judged by the checker and the SDKs",
    ),
    Shared(
        "unit/simulator/test_quirks.py",
        ("simulator/quirks/",),
        "one table of quirks; the four files group its rows",
    ),
    Shared(
        "unit/simulator/test_server.py",
        ("simulator/endpoints.py",),
        "what the server serves besides answers",
    ),
    Shared(
        "transport/test_connection.py",
        ("transport/connector.py", "transport/reply.py"),
        "one exchange over a real socket needs all three",
    ),
    Shared("recorder/test_case.py", ("cli/case.py",), "the command writes what the module makes"),
    Shared("recorder/test_captures.py", ("cli/import_captures.py",), "the same"),
    Shared("cli/test_main.py", ("cli/options.py",), "every option of every command is explained"),
    Shared("cli/test_probe.py", ("cli/probe_target.py",), "the upstream that the command tests"),
    Shared("gateway/test_serve.py", ("cli/serve.py",), "the gateway as a process"),
)


def is_named_after(file: Path, module: Path) -> bool:
    """A name that several modules have needs the folder of its module too."""
    name = f"test_{module.stem}"
    if file.stem != name and not file.stem.startswith(f"{name}_"):
        return False
    return STEMS[module.stem] == 1 or set(module.parts[:-1]) <= set(file.parts[:-1])


def shared_modules() -> set[Path]:
    named = [one for shared in SHARED for one in shared.modules]
    return {
        module
        for module in MODULES
        if any(str(module) == one or str(module).startswith(f"{one.rstrip('/')}/") for one in named)
    }


def test_every_module_has_its_test_file_or_shares_one() -> None:
    without = [one for one in MODULES if not any(is_named_after(file, one) for file in FILES)]

    assert [] == sorted(map(str, set(without) - shared_modules()))


def test_the_list_of_shared_files_has_no_other_entries() -> None:
    """A module that gets its own test file leaves the list."""
    assert [] == [one.file for one in SHARED if Path(one.file) not in FILES]
    named = [one for shared in SHARED for one in shared.modules]
    assert [] == [one for one in named if not (SOURCE / one).exists()]
    with_file = {one for one in MODULES if any(is_named_after(file, one) for file in FILES)}
    alone = {Path(one) for one in named if one.endswith(".py")}
    assert [] == sorted(map(str, alone & with_file))
