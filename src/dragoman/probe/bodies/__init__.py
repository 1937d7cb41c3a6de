"""Questions as request bodies, one file for each dialect.

They are written by hand and not by the writers in `dragoman.dialects`, which mend what an upstream may
not take: a question must arrive as it is.
"""

from dragoman.probe.bodies import anthropic, chat, responses
from dragoman.probe.bodies.fields import Fields
from dragoman.probe.question import Habits, Question
from dragoman.turn.request import DialectName


def write(question: Question, dialect: DialectName, model: str, habits: Habits) -> Fields:
    """Return a question as a request's fields."""
    name = question.model or model
    match dialect:
        case "chat":
            return chat.fields(question, name, habits)
        case "anthropic":
            return anthropic.fields(question, name, habits)
        case "responses":
            return responses.fields(question, name, habits)
