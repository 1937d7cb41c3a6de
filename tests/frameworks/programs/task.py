"""What every framework is asked to do: two tools, one prompt, and one line of JSON at the end.

python PROGRAM.py URL MODEL DIALECT
"""

import json
import sys
from collections.abc import Callable
from typing import NamedTuple

PROMPT = "How is it in Ulm, and what time is it there?"


class Task(NamedTuple):
    url: str
    model: str
    dialect: str


class Ran(NamedTuple):
    text: str  # the last answer
    pieces: int  # how many pieces of text were streamed


def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"sunny in {city}"


def get_time(zone: str) -> str:
    """Tell the time of a zone."""
    return f"noon in {zone}"


def main(run: Callable[[Task], Ran]) -> None:
    """Run a program; what it raises ends it."""
    print(json.dumps(run(Task(*sys.argv[1:]))._asdict()))  # noqa: T201 -- what it tells its caller
