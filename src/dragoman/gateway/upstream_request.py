"""The request as one upstream gets it: written in its dialect, and written again to continue a paused answer.

Moonshot searches the web when the call of its search comes back, and Anthropic pauses long turns: a second request to
the same upstream continues the answer, and the client sees one.  `ContinuationBounds` decides when no more are sent,
so that an upstream that pauses for ever costs at most what the settings allow.
"""

from typing import Final

from msgspec import Struct, structs

from dragoman.dialects import dialect
from dragoman.dialects.server_tools import may_pause
from dragoman.errors import MalformedError, TooLargeError, UntranslatableError
from dragoman.gateway.config.settings import Continuations
from dragoman.gateway.plan import extra_fields
from dragoman.gateway.reasoning_memory import NOTHING_RESTORED, count_restored
from dragoman.gateway.request_context import AcceptedRequest, RequestContext
from dragoman.gateway.routing import Hop
from dragoman.profiles.profile import Profile
from dragoman.translate_requests import ClientRequest, fault_of_request, write_request
from dragoman.turn.answer import Answer
from dragoman.turn.events import BlockKind, Fault, Usage
from dragoman.turn.request import Request
from dragoman.turn.server_tools import ServerKind

_SEARCH: Final = ServerKind.WEB_SEARCH
_MAX_TOKENS: Final = 5  # requests that carry the token of an answer that was truncated


class UpstreamRequest:
    """One request for one upstream.

    Attributes:
        profile: The upstream's, completed by what the upstream has shown.
        translates: The request is translated; within one dialect the client's bytes pass unchanged.
        body: In the upstream's dialect: kept here alone, and dropped once the response begins.
        path: Where the body is sent, after the base URL.
        sent: The same as it is sent: without what the path names.
        stop: Stop sequences that the upstream cannot match itself.
        may_pause: The upstream may pause its answer, and the gateway continues it.
    """

    __slots__ = (
        "_accepted", "_context", "_hop", "_restored", "body", "may_pause", "path", "profile", "sent", "stop", "translates",
    )  # fmt: skip

    def __init__(self, context: RequestContext, accepted: AcceptedRequest, hop: Hop) -> None:
        self._context = context
        self._accepted = accepted
        self._hop = hop
        self._restored = NOTHING_RESTORED  # what was put back into the history
        self.profile: Profile = hop.profile
        self.translates: bool = hop.upstream.dialect != context.dialect
        self.body: bytes = b""
        self.sent: bytes = b""
        self.path: str = ""
        self.stop: tuple[str, ...] = ()
        self.may_pause: bool = False

    async def write(self) -> Fault | None:
        """Write the request in the upstream's dialect, or return why that is impossible."""
        context, runtime, accepted = self._context, self._context.runtime, self._accepted
        self.profile = runtime.reasoning_hosts.profile_for(self._hop)
        memory = runtime.memory
        if memory.is_shared:
            await memory.fetch(accepted.request, context.owner, self.profile.origin)
        try:
            await runtime.heavy.run(len(accepted.client.body), self._write_now)
        except (MalformedError, UntranslatableError, TooLargeError) as error:
            return fault_of_request(error)
        restored = self._restored
        if context.logs_steps:
            named = {"upstream": self._hop.upstream_name, "model": self._hop.model}
            if restored is not NOTHING_RESTORED:
                context.debug(
                    "history restored",
                    **named,
                    reasoning=restored.reasoning,
                    arguments=restored.arguments,
                )
            losses = context.outcome.request_losses
            context.debug(
                "request written",
                **named,
                dialect=self._hop.upstream.dialect,
                bytes=len(self.body),
                losses=", ".join(dict.fromkeys(one.code for one in losses)),
            )
        return None

    async def learn(self, fault: Fault) -> bool:
        """Learn from a refusal what the upstream expects; return whether another attempt may succeed."""
        body, hosts, hop = self.body, self._context.runtime.reasoning_hosts, self._hop
        run = self._context.runtime.heavy.run
        return await run(len(body), lambda: hosts.learn(hop, fault, body))

    async def continue_with(self, paused: Answer) -> bool:
        """Write the request that continues a paused answer; return False if it is too large."""
        again = dialect(self._hop.upstream.dialect).continue_request
        assert again is not None  # noqa: S101 -- only such upstreams pause
        body = self.body
        body = await self._context.runtime.heavy.run(len(body), lambda: again(body, paused))
        if len(body) > self._context.plan.settings.server.limits.max_request_bytes:
            return False
        self._use(body)
        return True

    def release(self) -> None:
        """Drop the body: the response may take long.  One that may pause needs it to the end."""
        if not self.may_pause:
            self.body = self.sent = b""

    def _use(self, body: bytes) -> None:
        self.body = body
        self.path, self.sent = dialect(self._hop.upstream.dialect).wire_request(body)

    def _write_now(self) -> None:
        accepted, hop, profile = self._accepted, self._hop, self.profile
        context = self._context
        route, memory, owner = accepted.choice.route, context.runtime.memory, context.owner
        request = memory.restore(
            accepted.request,
            owner,
            profile.origin,
            arguments=self.translates,
            signed_only=profile.replay_reasoning == "never",
        )
        self._restored = NOTHING_RESTORED
        if request is not accepted.request:
            self._restored = count_restored(accepted.request, request)
            if not self.translates and self._may_replay:
                # The client sends reasoning itself; messages in which it was completed are written with it.
                profile = structs.replace(profile, replay_reasoning="always")
        continues = context.plan.settings.continuations.max_requests > 0
        written = write_request(
            self._client_request(),
            target=hop.upstream.dialect,
            changed=None if request is accepted.client.request else request,
            profile=profile,
            continues=continues,
            model=hop.model,
            strict=route.strict,
            repair_history=route.repair_history,
            prefill=route.prefill,
            known_ids=memory.known_ids(accepted.request, owner),
            limits=context.plan.settings.server.limits,
        )
        context.outcome.request_losses = written.losses
        self._use(extra_fields(hop, route, written.body))
        self.stop = written.stop
        self.may_pause = continues and may_pause(request, dialect(hop.upstream.dialect), profile)

    @property
    def _may_replay(self) -> bool:
        """The upstream is not known to refuse reasoning."""
        return self._hop.profile.replay_reasoning == "auto" and not self.profile.refuses_reasoning

    def _client_request(self) -> ClientRequest:
        """Return the client's request; bytes that pass go without a line that only one vendor can use.

        A request that is translated needs nothing: its reader has dropped the line.
        """
        context, client = self._context, self._accepted.client
        spoken = dialect(context.dialect)
        strips = context.plan.settings.guards.strip_billing and not self.translates
        if spoken.strip_billing is None or not strips or self._hop.profile.origin == spoken.vendor:
            return client
        body = spoken.strip_billing(client.body)
        return client if body is client.body else structs.replace(client, body=body)


# --- an answer that is paused -----------------------------------------------------------------------


class Paused(Struct, frozen=True):
    """The upstream paused its answer.

    Attributes:
        answer: What it sent for the last request.
        spent: The counts of all requests so far.
    """

    answer: Answer
    spent: Usage


class ContinuationBounds:
    """The bounds of one answer: requests, seconds and tokens of the settings, searches of the client's tool."""

    def __init__(self, settings: Continuations, request: Request, began: float) -> None:
        uses = [
            tool.server_options.max_uses
            for tool in request.tools
            if tool.does is _SEARCH and tool.server_options is not None
        ]
        self._settings = settings
        self._began = began
        self._max_uses = min((one for one in uses if one is not None), default=None)
        self._searches = 0
        self.requests: int = 0  # that continue the answer
        self.max_seconds: float = settings.max_seconds  # of all requests; 0: no limit

    def passed(self, paused: Paused, now: float) -> str:
        """Count a pause, and return the bound that the next request would pass; empty: there is none."""
        settings, spent = self._settings, paused.spent
        self._searches += _unanswered_searches(paused.answer)
        finish = paused.answer.finish
        truncated = finish is not None and bool(finish.token)
        most = min(settings.max_requests, _MAX_TOKENS) if truncated else settings.max_requests
        if self.requests >= most:
            return "max_requests"
        if settings.max_seconds and now - self._began >= settings.max_seconds:
            return "max_seconds"
        if settings.max_tokens and spent.prompt_tokens + spent.output_tokens >= settings.max_tokens:
            return "max_tokens"
        if self._max_uses is not None and self._searches > self._max_uses:
            return "max_uses"
        self.requests += 1
        return ""


def _unanswered_searches(answer: Answer) -> int:
    """Return how many searches of an answer run when they come back to the upstream."""
    results = {block.call_id for block in answer.blocks if block.kind is BlockKind.SERVER_RESULT}
    return sum(
        block.kind is BlockKind.SERVER_CALL
        and block.server is not None
        and block.server.does is _SEARCH
        and block.call_id not in results
        for block in answer.blocks
    )
