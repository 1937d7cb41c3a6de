"""What a written answer says of itself."""

from msgspec import structs

from dragoman.context import Exchange
from dragoman.dialects.identity import Identity, identity_of
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Start

PLAIN = Exchange(profile=Profile(name="p"))
CLIENTS = structs.replace(PLAIN, model="claude", created=7, seed="s")
START = Start(model="kimi", id="up_1", created=5)


def identity(start: Start, exchange: Exchange) -> Identity:
    return identity_of(start, exchange, prefix="msg_", what="message")


def test_answer_has_the_names_that_the_client_knows() -> None:
    who = identity(START, CLIENTS)

    assert ("claude", 7) == (who.model, who.created)
    assert who.id.startswith("msg_")


def test_what_the_client_does_not_say_is_the_upstreams() -> None:
    who = identity(START, PLAIN)

    assert ("kimi", 5) == (who.model, who.created)
    assert who.id != identity(Start(id="up_2"), PLAIN).id


def test_relay_keeps_what_the_upstream_sends() -> None:
    kept = structs.replace(CLIENTS, keep_identity=True)

    assert Identity("up_1", "kimi", 5) == identity(START, kept)
    assert identity(Start(), CLIENTS) == identity(Start(), kept)
