"""Which models an agent asks for, and how large they are.

The user's options come first, then the settings, then the gateway's list of models.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from dragoman.agents.agent import Agent, Window
from dragoman.errors import ConfigError
from dragoman.gateway.routing import Question, Router

_USUAL_OUTPUT: Final = 32_000  # output tokens that agents ask for by default
_SHARE: Final = 4  # an answer of unknown limit gets this part (1/n) of the context


class ListedModel(Struct, frozen=True):
    """A model as the gateway lists it."""

    id: str
    max_input_tokens: int | None = None
    max_tokens: int | None = None


class ModelChoice(Struct, frozen=True, kw_only=True):
    """Empty names: the agent's own."""

    model: str = ""
    small: str = ""


def choose(
    agent: Agent, *, model: str, small: str, listed: Sequence[ListedModel], router: Router | None
) -> ModelChoice:
    """Return the models that the agent asks for; no router: this process did not start the gateway.

    Raises:
        ConfigError: no model is given, and the gateway lists none.
    """
    if model:
        return ModelChoice(model=model, small=small)
    if agent.usual:
        names = {one.id for one in listed}
        known = agent.usual if router is None else _known(agent, router, names)
        alone = router is None and len(listed) == 1 and not names & set(agent.usual)
        if len(known) == len(agent.usual) and not alone and not small:
            return ModelChoice()
        if known and not alone:
            return ModelChoice(model=known[0], small=small or known[-1])
    if not listed:
        message = f"the gateway lists no models: choose one for {agent.name} with --model"
        raise ConfigError(message)
    return ModelChoice(model=listed[0].id, small=small)


def _known(agent: Agent, router: Router, listed: set[str]) -> tuple[str, ...]:
    """Return those of the agent's usual names that the settings can serve.

    A name that a route forwards unchanged counts if the upstream is the agent's own vendor, or if the gateway lists it.
    """

    def means_something(name: str) -> bool:
        choice = router.choose(Question(model=name, dialect=agent.dialect))
        if choice is None:
            return False
        first = choice.hops[0]
        return first.model != name or first.profile.origin in agent.origins or name in listed

    return tuple(filter(means_something, agent.usual))


def window(
    agent: Agent,
    choice: ModelChoice,
    *,
    asked: Window,
    listed: Sequence[ListedModel],
    router: Router | None,
) -> Window:
    """Return the sizes of the main model, as far as they are known."""
    name = choice.model or (agent.usual[0] if agent.usual else "")
    entry = next((one for one in listed if one.id == name), ListedModel(name))
    sizes = Window(context=entry.max_input_tokens or 0, output=entry.max_tokens or 0)
    if router is not None:
        facts = router.facts(name)
        sizes = Window(context=facts.context or sizes.context, output=facts.output or sizes.output)
    context = asked.context or sizes.context
    output = asked.output or sizes.output
    if context and not output:
        output = min(_USUAL_OUTPUT, context // _SHARE)
    return Window(context=context, output=output)
