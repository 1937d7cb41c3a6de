"""Encodes a whole answer as a Responses body."""

from dragoman.dialects.responses.answer_writer import ResponsesWriter
from dragoman.exchange import Exchange
from dragoman.turn.fold import Answer, unfold


def encode_body(answer: Answer, exchange: Exchange) -> bytes:
    """Return the complete response: what the last event of its stream carries."""
    writer = ResponsesWriter(exchange)
    for event in unfold(answer):
        writer.send(event)
    return writer.response
