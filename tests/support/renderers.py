"""Calls written as each family's models write them: the simulator's own renderers."""

from dragoman.simulator.native import FAMILIES, Family, NativeCall

__all__ = ["FAMILIES", "Family", "NativeCall"]
