"""A pause of Python's garbage collector, for tests of how work grows."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Collect before, and not inside: a collection looks at everything there is, so it grows with other tests too."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
