"""What a process can take on."""

import pytest

from dragoman.gateway.capacity import HeldBytes, InflightBytes, OverloadedError, share_out


@pytest.mark.parametrize("descriptors", [128, 256, 1024, 4096, 65536, 1 << 20])
def test_all_connections_and_their_upstreams_fit_into_the_descriptors(descriptors: int) -> None:
    room = share_out(descriptors)

    needed = 2 * room.connections + room.surplus + 2 * room.backlog
    assert descriptors // 5 < 2 * room.connections
    assert needed <= descriptors - 32


def test_few_descriptors_still_serve_one() -> None:
    assert 1 == share_out(16).connections


def test_bytes_of_all_requests_are_counted_together_and_given_back() -> None:
    everything = InflightBytes()
    one, two = HeldBytes(everything, 100), HeldBytes(everything, 100)
    one.add(60)
    with pytest.raises(OverloadedError) as caught:
        two.add(41)
    two.release()
    two.release()
    two.add(40)

    assert 100 == everything.total
    assert (503, "max_inflight_bytes") == (caught.value.fault.status, caught.value.fault.code)
    one.release()
    two.release()
    assert 0 == everything.total
