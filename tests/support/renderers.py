"""Calls written as each family's models write them: the simulator's own renderers."""

from dragoman.simulator.native import FAMILIES
from dragoman.simulator.native.family import Family, NativeCall

__all__ = ["FAMILIES", "Family", "NativeCall"]
