"""Write `events.json` (and, with --as, `as/<dialect>.sse`) of corpus cases from the current output of the code.

    python tools/corpus.py chat/a1_one_chunk_call [--as anthropic]...

Read the result before you commit it: it is the specification from then on.
"""

import argparse
import sys
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from dragoman.dialects import dialect
from dragoman.turn.answer import merged
from support.corpus import ROOT, Case, drive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--as", dest="targets", action="append", default=[])
    options = parser.parse_args()
    for name in options.cases:
        case = Case(ROOT / name)
        events = merged(drive(case.reader(), [case.stream]))
        lines = b",\n".join(msgspec.json.encode(event) for event in events)
        (case.folder / "events.json").write_bytes(b"[\n" + lines + b"\n]\n")
        for target in options.targets:
            writer = dialect(target).writer(case.exchange(target))
            out = b"".join(writer.send(event) for event in drive(case.reader(), [case.stream]))
            (case.folder / "as").mkdir(exist_ok=True)
            (case.folder / "as" / f"{target}.sse").write_bytes(out)
        print(name, len(events), "events")


if __name__ == "__main__":
    main()
