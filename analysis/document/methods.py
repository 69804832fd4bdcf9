"""The methods of a report, in words."""

from analysis.evidence import is_measured
from analysis.load import Study

_COMPARISONS = (
    "**Comparisons.** Paired by seed. Not significantly different from the best: "
    "by one-sided t tests on moderated variances, at 5% over the number of comparisons. What this set promises: "
    "the truly best one is in it in 95% of studies. It is no test of each pair: where several are exactly as good, "
    "each is in it with that probability, and one of them or another is left out more often."
)
METHODS = (
    "**Seeds.** Every number is over seeds. A trial that crashed counts with the lowest score; one that did not finish "
    "is named, and left out.",
    "**Score.** Mean return of the final evaluation, and its mean over seeds: by it configurations are compared, "
    "chosen and sorted.",
    "**Failures.** A seed fails that ends below the target, or crashes; where there is no target, below half of what "
    "the best brings above the lowest possible return. The probability has Jeffreys' "
    "interval. The worst seed stands beside the mean (Patterson et al. 2023).",
    "**Times to target.** From the first of two evaluations in a row at the target or above. "
    "A seed that never holds it counts with all that it was given: the mean is then a lower bound, marked with \u2265.",
    "**Intervals.** 95%. A few seeds say little about their spread, so each configuration borrows from the others in "
    "the study, most from its neighbours on the grid. Of scores with a lowest and a highest possible value that is the "
    "share of the largest variance that the mean allows, and the interval is Wilson's; of others it is the variance "
    "(moderated, Smyth 2004), and Student's t. Seconds and speeds are taken on a logarithmic scale.",
    _COMPARISONS,
    "**Choice.** The score decides; where several solve the environment and tie, env steps to target. "
    "Of those within a standard error of the best, those of which the fewest seeds fail; of these the cheapest "
    "in training seconds; of those at about the same cost, the one with the largest area under the learning curve. "
    "Where some are practically the same as the best, the choice is among these instead.",
    "**Practically the same.** Mean scores are shown to differ by less than delta: "
    "two one-sided t tests on moderated variances, paired by seed, against the best, with Holm's correction at 5%. "
    "Delta is `report.delta`, by default 2% of the range of scores. Seeds that fail rarely may not have failed yet: "
    "what a few seeds show to be the same can still differ in that.",
)
SPEED_METHODS = (
    METHODS[0],
    "**Throughput.** Env steps per training second, over blocks of time after a warm-up, until its interval "
    "over blocks is narrow or its time is over. Trials run one at a time, in random order within each seed. "
    "Blocks in which others used the machine are measured again.",
    "**Intervals.** 95%, Student t on logarithms: means over seeds are geometric. Each configuration's variance "
    "is averaged with that of the others in the study (moderated, Smyth 2004).",
    _COMPARISONS,
    "**Choice.** The fastest; of those within a standard error of it, the one with the fewest processes.",
    "**Where the time goes.** Shares of the wall-clock. With a synchronous algorithm, what runners do is a mean "
    "over them; waiting is for the slowest, and moving data what sampling takes beyond it. With an asynchronous "
    "one it is the learner's time: while it waits for samples, its time is split as the runners spend theirs.",
)
"""Said of a study of throughput instead."""
REPEATS = (
    "**Repeats.** Everything else rests on the first run of each seed. A repeat is compared with it bit by bit, "
    "in all that was logged but does not measure time or load, and by a digest of the final weights. "
    "Seeds against other seeds: random splits, compared as two configurations would be, without correction. "
    "A right test calls 5% of them different; the splits share the study's seeds, so that a share of 2% "
    "or 7% is nothing unusual, and no interval is given."
)
"""Said of a study that ran its seeds several times."""
SEARCH = (
    "**Search and confirmation.** What a search picks did best on the seeds that it saw, partly by luck. "
    "So the best of it, and the base configuration, ran again at full budget on held-out seeds: the answer, "
    "the table and all sections but those of the search rest on these alone. In the search's section scores are means "
    "over seeds, and its intervals are over held-out seeds: a search score is a number that was picked, no estimate."
)
"""Said of a search."""


def methods_of(study: Study) -> tuple[str, ...]:
    """The methods behind a study's report, a paragraph of Markdown each."""
    if is_measured(study.runs):
        return SPEED_METHODS
    return (*METHODS, *([REPEATS] if study.repeats > 1 else []), *([SEARCH] if study.runs["exploratory"].any() else []))
