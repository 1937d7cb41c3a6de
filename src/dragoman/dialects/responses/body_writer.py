"""Encodes a whole answer as a Responses body."""

from dragoman.context import Exchange
from dragoman.dialects.responses.answer_writer import ResponsesWriter
from dragoman.turn.answer import Answer, unfold


def encode_body(answer: Answer, exchange: Exchange) -> bytes:
    """Return the complete response: what the last event of its stream carries."""
    writer = ResponsesWriter(exchange)
    for event in unfold(answer):
        writer.send(event)
    return writer.response
