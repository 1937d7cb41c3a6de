"""What the simulator received, for tests: bounded, without whole credentials."""

import asyncio

import pytest

from dragoman.simulator.exchanges import Exchanges


def test_exchanges_are_in_order_and_can_be_cleared() -> None:
    exchanges = Exchanges()
    for path in ("/a", "/b"):
        exchanges.keep(exchanges.open("POST", path, {}), b'{"n": 1}')

    assert ["/a", "/b"] == [one.path for one in exchanges]
    assert {"n": 1} == exchanges[1].json
    exchanges.clear()
    assert 0 == len(exchanges)


def test_large_bodies_push_out_older_ones_and_the_last_stays() -> None:
    exchanges = Exchanges()
    for number in range(4):
        exchanges.keep(exchanges.open("POST", f"/{number}", {}), b"x" * (40 << 20))

    assert "/3" == exchanges[-1].path
    assert len(exchanges) < 4


def test_a_waiting_test_is_woken_by_a_request_or_by_its_timeout() -> None:
    async def run() -> None:
        exchanges = Exchanges()
        waiting = asyncio.create_task(exchanges.wait_for(lambda one: one.path == "/b", 60))
        await asyncio.sleep(0)
        exchanges.open("POST", "/a", {})
        exchanges.open("POST", "/b", {})

        assert "/b" == (await waiting).path
        with pytest.raises(TimeoutError):
            await exchanges.wait_for(lambda one: one.path == "/c", 0.01)

    asyncio.run(run())
