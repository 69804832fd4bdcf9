"""How a statistic does in studies whose truth is known: a row of the page on calibration."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.support.harness import Table

PROMISES = ("95", "at least 95", "at most 5", "")
"""In the order of the page."""


@dataclass(frozen=True)
class Statistic:
    """How often something happens in studies of several kinds.

    Attributes:
        name: What happens.
        promised: How often, in percent, one of `PROMISES`; "" where nothing is promised.
        shares: Kind of studies to how often it happens in them.
        num_studies: Of each kind; 0 where nothing is drawn.
        risk: It should not happen.
        digits: Of a percentage, behind the point.
    """

    name: str
    promised: str
    shares: Mapping[str, float]
    num_studies: int
    risk: bool = False
    digits: int = 1

    def row(self) -> tuple[str, ...]:
        """The least and the most, and the first of the kinds of studies in which it does worst."""
        cells = {kind: f"{100 * share:.{self.digits}f}" for kind, share in self.shares.items()}
        least, most = min(cells.values(), key=float), max(cells.values(), key=float)
        worst = next(kind for kind, cell in cells.items() if cell == (most if self.risk else least))
        return self.name, self.promised, f"{least}-{most}", worst, f"{self.num_studies:,}" if self.num_studies else ""


def table(statistics: Iterable[Statistic]) -> Table:
    """All of them, by what they promise."""
    return Table(
        "Promised and found, percent of studies",
        ("", "promised", "found", "worst in", "studies of each kind"),
        tuple(one.row() for one in sorted(statistics, key=lambda one: PROMISES.index(one.promised))),
        "found: the least and the most over kinds of studies, which differ in the scores, in configurations x seeds "
        "and so on. Without a number of studies: exact.",
    )
