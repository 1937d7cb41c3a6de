"""Formats that the settings declare, through a running gateway."""

import pytest
from msgspec import structs

from dragoman.gateway.config.settings import FormatTable, Route, Settings
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.talks import Sdks

TOOL = {"name": "add", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
CALL = '<acme>{"name": "add", "arguments": {"n": 1}}</acme>'
ACME = FormatTable(shape="json", open="<acme>", close="</acme>", models=("acme-*",))


def with_formats(url: str) -> Settings:
    """Return settings where a name chooses the format for one route, and the model's id for the others."""
    settings = settings_for(url, formats={"acme": ACME})
    named = Route(name="named", to=("chat/plain",), format="ACME")
    named = structs.replace(named, match=structs.replace(named.match, model="named"))
    return structs.replace(settings, routes=(named, *settings.routes))


@pytest.fixture(scope="module")
def gateway():
    with stand(with_formats) as found:
        yield found


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("model", ["named", "chat/acme-7b", "anthropic/acme-7b"])
def test_a_declared_format_is_found_by_name_and_by_model(
    gateway: Stand, client: str, model: str
) -> None:
    with Sdks(gateway.url) as sdks:
        said = sdks.talk(client, model, stream=True, tools=(TOOL,)).ask(f"sim: say {CALL}")

    assert [("add", {"n": 1})] == [(name, arguments) for _, name, arguments in said.calls]
    assert "" == said.text


def test_other_models_write_their_own_formats(gateway: Stand) -> None:
    with Sdks(gateway.url) as sdks:
        said = sdks.talk("chat", "chat/plain", stream=True, tools=(TOOL,)).ask(f"sim: say {CALL}")

    assert () == said.calls
    assert CALL == said.text
