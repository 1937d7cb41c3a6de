"""Calls written as each family's models write them: the simulator's own renderers."""

from dragoman.simulator.native import FAMILIES
from dragoman.simulator.native.family import Call, Family

__all__ = ["FAMILIES", "Call", "Family"]
