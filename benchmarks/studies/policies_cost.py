"""What animations and models of the recommended policies add to the default study: with against without, in turns."""

import tempfile
from pathlib import Path

from benchmarks.support.harness import (
    Report,
    Table,
    Usage,
    against,
    ratio,
    ratios,
    run,
    spread,
    suite_command,
    take_turns,
)

TARGET = 1.05
BARE = ("report.video=false", "registry.models=none")
SHORT = ("seeds=[0]", "budget_env_steps=8000")


def measure(quick: bool) -> Report:
    """Run it."""
    repeats = 1 if quick else 3
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        scratch, short = Path(folder), SHORT if quick else ()
        found = take_turns(
            {"with": lambda: _study(scratch, *short), "without": lambda: _study(scratch, *short, *BARE)}, repeats
        )
    wall, cpu = (
        {name: [getattr(usage, unit) for usage in done] for name, done in found.items()} for unit in ("wall_s", "cpu_s")
    )
    return Report(
        name="policies_cost",
        title="What the policies that can be used add to a study",
        compared=(
            "`python experiments/run.py`, the default study with its report, from the command to its end: "
            "*with* the recommended policy as animations in the report and as models in MLflow's registry, "
            f"and *without* (`{' '.join(BARE)}`)."
        ),
        verdict=(
            f"Target of {TARGET} of the study's wall-clock {against(ratio(wall['with'], wall['without']), TARGET)}."
        ),
        tables=(
            Table(
                "The default study",
                ("", "seconds", "of without", "CPU s", "of without"),
                tuple(
                    (
                        name,
                        *(cell for of in (wall, cpu) for cell in (spread(of[name]), ratios(of[name], of["without"]))),
                    )
                    for name in found
                ),
                f"Median (minimum-maximum) of {repeats} turns; a ratio's range is that of the turns.",
            ),
        ),
    )


def _study(scratch: Path, *overrides: str) -> Usage:
    return run(suite_command(overrides, Path(tempfile.mkdtemp(dir=scratch))), scratch / "suite.log")
