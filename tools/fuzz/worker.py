"""Fuzz one target in this process, which needs the environment that `tools.fuzz` creates.

python -m tools.fuzz.worker TARGET [options of libFuzzer] FOLDER...
"""

import sys

import atheris

with atheris.instrument_imports(include=["dragoman"]):
    from tools.fuzz.judge import judge
    from tools.fuzz.targets import TARGETS


def main() -> None:
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, lambda data: judge(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
