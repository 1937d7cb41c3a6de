"""Write `as/*` of the request cases from the current output of the code.

    python tools/requests.py [NAME…]

Read the result before you commit it: it is the specification from then on.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.requests import PROFILES, cases


def main() -> None:
    for case in cases():
        if sys.argv[1:] and str(case) not in sys.argv[1:]:
            continue
        made = case.folder / "as"
        made.mkdir(exist_ok=True)
        for target in PROFILES:
            for old in case.kept(target):
                (made / f"{target}.{old}").unlink()
            for ending, data in case.becomes(target).items():
                (made / f"{target}.{ending}").write_bytes(data)
        print(case)


if __name__ == "__main__":
    main()
