"""Write the endings of answers that clients receive now into tests/gateway/endings.

    python tools/endings.py [name]...

Read the result before you commit it: it is the specification from then on.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support import endings
from tests.support.gateway import stand


def main() -> None:
    with stand(endings.settings) as found:
        texts = found.do(endings.ask_all(found, sys.argv[1:]), timeout=120)
    endings.ROOT.mkdir(exist_ok=True)
    for (ending, dialect), text in texts.items():
        (endings.ROOT / f"{ending.name}.{dialect}.txt").write_text(text)
    print(len(texts), "files")


if __name__ == "__main__":
    main()
