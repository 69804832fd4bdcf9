"""The section on rules for the learning rate."""

from analysis.document import wording
from analysis.document.extension import Report
from analysis.document.parts import Part, Section
from science.learning_rate_rules.question import compare_rules


class RulesReport(Report):
    """A section on each environment."""

    before = "learning"

    def sections(self, part: Part) -> list[Section]:
        """Which rule for the learning rate."""
        return [lr_rules(part)]


def lr_rules(part: Part) -> Section:
    """Which rule for the learning rate."""
    sentences = tuple(
        f"{wording.within(found.settings)}{wording.rules_sentence(found)}"
        for found in compare_rules(part.runs, part.axes)
    )
    return Section("lr-rules", "Which rule for the learning rate?", sentences)
