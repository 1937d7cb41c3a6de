"""The inspector over a gateway: which keys see which exchanges, and exchanges that are not recorded."""

from dragoman.gateway.config.settings import Key, Secret
from dragoman.gateway.inspection import KeyAccess
from dragoman.gateway.keys import Keyring
from dragoman.inspector.access import Viewer
from tests.support.asking import get, post
from tests.support.gateway import stand


def test_a_gateway_without_keys_shows_nothing_to_other_machines() -> None:
    access = KeyAccess(lambda: Keyring(()))
    assert access.viewer({}, "127.0.0.1") == Viewer(all=True, owner="anonymous")
    assert access.viewer({}, "::1") is not None
    assert access.viewer({}, "192.0.2.7") is None
    assert access.viewer({}, "") is None
    assert access.viewer_of("anonymous") is None


def test_a_withdrawn_key_loses_its_session() -> None:
    keys = [Key(key=Secret("env:A", "key-of-alice"), name="alice", inspect=True)]
    access = KeyAccess(lambda: Keyring(tuple(keys)))
    assert access.viewer_of("name:alice") == Viewer(all=True, owner="name:alice")
    keys[0] = Key(key=Secret("env:A", "key-of-alice"), name="alice")
    assert access.viewer_of("name:alice") == Viewer(all=False, owner="name:alice")
    keys[0] = Key(key=Secret("env:B", "key-of-bob"), name="bob")
    assert access.viewer_of("name:alice") is None


def test_an_exchange_that_is_not_recorded_has_its_row_alone() -> None:
    with stand() as gateway:
        exchange = post(gateway, "chat").headers["x-request-id"]
        seen = get(gateway, f"/inspector/api/exchanges/{exchange}").json()
        assert (seen["row"]["recorded"], seen["upstream"]["rows"]) == (False, [])
        answer = get(gateway, f"/inspector/api/exchanges/{exchange}/recording")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_recorded")
