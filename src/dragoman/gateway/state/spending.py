"""What a key has spent on the current day and in the current month, in nano-dollars.

Days and months are those of UTC.  Time comes in as Unix seconds.
"""

from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, Protocol, TypeAlias

from dragoman.gateway.prices import nanodollars

BudgetName: TypeAlias = Literal["budget_day", "budget_month"]


class Budgets(Protocol):
    """The budgets of a key in its settings, in dollars; 0 means no limit."""

    @property
    def budget_day(self) -> float: ...
    @property
    def budget_month(self) -> float: ...


class Spent(NamedTuple):
    """Nano-dollars of a day and of a month."""

    day: int = 0
    month: int = 0

    def over(self, budgets: Budgets) -> BudgetName | None:
        """Return the budget that is used up."""
        if budgets.budget_month and self.month >= nanodollars(budgets.budget_month):
            return "budget_month"
        if budgets.budget_day and self.day >= nanodollars(budgets.budget_day):
            return "budget_day"
        return None


class Spending:
    """The sums of one key, which begin again with every day and every month."""

    __slots__ = ("day", "day_sum", "month", "month_sum")

    def __init__(self) -> None:
        self.day: int = 0  # number of the day to which `day_sum` belongs
        self.month: int = 0
        self.day_sum: int = 0
        self.month_sum: int = 0

    def spent(self, now: float) -> Spent:
        """Return the sums of the current day and month."""
        self._begin(now)
        return Spent(self.day_sum, self.month_sum)

    def add(self, nano: int, now: float) -> None:
        self._begin(now)
        self.day_sum += nano
        self.month_sum += nano

    def _begin(self, now: float) -> None:
        today = _date(now)
        day, month = today.toordinal(), today.year * 12 + today.month
        if day != self.day:
            self.day, self.day_sum = day, 0
        if month != self.month:
            self.month, self.month_sum = month, 0


def period_names(now: float) -> tuple[str, str]:
    """Return the current day and month, such as `2026-11-17` and `2026-11`."""
    day = _date(now).strftime("%Y-%m-%d")
    return day, day[:7]


def reset_of(budget: BudgetName, now: float) -> datetime:
    """Return when a budget begins again."""
    midnight = _date(now).replace(hour=0, minute=0, second=0, microsecond=0)
    if budget == "budget_day":
        return midnight + timedelta(days=1)
    return (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)


def _date(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC)
