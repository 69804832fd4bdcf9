"""The section on updates per env step."""

from analysis.document.extension import Report
from analysis.document.parts import Part, Section, figure_of, slug
from analysis.plots import best_lr
from analysis.questions import learning_rate_batch
from science.replay_ratio.question import UPDATES, laws


class ReplayRatioReport(Report):
    """A section on each environment."""

    before = "seeds"

    def sections(self, part: Part) -> list[Section]:
        """How the best learning rate and the best batch change with the updates per env step."""
        return [replay(part)]


def replay(part: Part) -> Section:
    """How the best learning rate and the best batch change with the updates per env step."""
    if part.picked:
        return Section("replay", "")
    sentences, figures = [], []
    chosen = part.runs[part.runs["config"] == part.decision.order[0]]
    for law in laws(part.runs, part.axes):
        sentences.append(law.sentence)
        over = UPDATES
        for label, runs in learning_rate_batch.slices(part.runs, part.axes, law.column, over):
            if not chosen.index.isin(runs.index).any():
                continue
            found = learning_rate_batch.best_learning_rates(runs, part.rng, lr=law.column, batch=over)
            ax = best_lr.plot(found, None, law.rejected, law.column, over=over, rules=law.rules)
            what = f"The {law.setting} with the largest area under the learning curve over the updates per env step"
            what += f", with {label} as the answer chooses." if label else "."
            figures.append(
                part.drawn(
                    f"replay-{slug(law.setting)[1:]}",
                    figure_of(ax),
                    what,
                    "Gaussian process posterior",
                    found["num_seeds"],
                )
            )
    return Section("replay", "Updates per env step" if sentences else "", tuple(sentences), tuple(figures))
