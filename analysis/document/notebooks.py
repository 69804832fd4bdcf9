"""The words, tables and figures of this folder's notebooks. As a command, it runs them again and keeps what they show.

python -m analysis.document.notebooks [study=<name or study run id>] [tracking_uri=...]

Without `study=`, each is run on the latest study of the name in its metadata: of the kind that it is about.
"""

import io
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import PIL.Image
from IPython.display import Image, Markdown, display
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import AnalysisError
from analysis.document.answer import answers
from analysis.document.conclusions import steps_of
from analysis.document.next_step import study_command
from analysis.document.parts import Section
from analysis.document.search import seeds_named
from analysis.document.sections import by_env
from analysis.load import Study
from analysis.plots.text import rate, readable
from analysis.questions import learning_rate_batch as scaling
from analysis.questions import throughput
from analysis.questions.batch_tradeoff import LrBatch, lr_batch
from analysis.questions.convergence import turned
from analysis.questions.labels import code, named, seeds_finished, shares, with_interval

FOLDER = Path(__file__).resolve().parent.parent
DPI = 110
FRAME_WIDTH = 300
"""Pixels, at least, of an animation; larger pictures are made smaller by a whole number."""
MOST_FRAMES = 150
TIMEOUT_S = 300
PARAMETERS = "parameters"
"""Tag of the cell that says which study."""


# What a notebook shows.


def say(*paragraphs: object) -> None:
    """Display Markdown; empty paragraphs are left out."""
    if text := "\n\n".join(filter(None, map(str, paragraphs))):
        display(Markdown(text))  # type: ignore[no-untyped-call]


def introduce(study: Study) -> None:
    """Display what a study asked, and which of its trials are there."""
    gaps = study.gaps() or [f"All {len(study.runs)} planned trials finished."]
    shared = (
        "> **Trials shared the machine.** Seconds and env steps/s compare configurations of this study roughly, "
        "and nothing beyond it."
    )
    say(
        f"**The question.** {study.question or study.name}", *gaps, *([] if study.runs["exclusive"].all() else [shared])
    )


def show(drawn: Axes | Sequence[Axes] | Figure, caption: str) -> None:
    """Display a figure and its caption."""
    figure = drawn if isinstance(drawn, Figure) else (drawn if isinstance(drawn, Axes) else drawn[0]).figure
    assert isinstance(figure, Figure)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=DPI, metadata={"Software": None})
    display(Image(data=picture.getvalue(), format="png", alt=caption))  # type: ignore[no-untyped-call]
    say(f"*{caption}*")


def show_frames(frames: Sequence[npt.NDArray[np.uint8]], frames_per_s: float, caption: str) -> None:
    """Display pictures as an animation (PNG), and its caption.

    Args:
        frames: (height, width, 3) each, as Gymnasium's `rgb_array` gives them; of more than `MOST_FRAMES`,
            some are left out.
        frames_per_s: At which they were drawn.
        caption: What there is to see.
    """
    every = -(-len(frames) // MOST_FRAMES)
    first, *others = (
        PIL.Image.fromarray(frame).reduce(max(1, frame.shape[1] // FRAME_WIDTH)) for frame in frames[::every]
    )
    animation = io.BytesIO()
    first.save(animation, "PNG", save_all=True, append_images=others, duration=1000 * every / frames_per_s)
    display(Image(data=animation.getvalue(), format="png", alt=caption))  # type: ignore[no-untyped-call]
    say(f"*{caption}*")


def figures(study: Study, rng: np.random.Generator) -> dict[str, list[Section]]:
    """Environment to the figures that the study's report has of it."""
    return by_env(study, rng)


def show_figures(found: Mapping[str, Sequence[Section]], key: str, otherwise: str) -> None:
    """Display figures of the report.

    Args:
        found: From `figures`.
        key: Of the figure; or what the keys of several begin with, up to a dash.
        otherwise: Said if the study has no such figure.
    """
    for env, of_env in found.items():
        chosen = [d for section in of_env for d in section.figures if d.key == key or d.key.startswith(f"{key}-")]
        if len(found) > 1:
            say(f"**{env}**")
        for drawn in chosen:
            show(drawn.figure, drawn.caption)
        if not chosen:
            say(f"*No figure: {otherwise}.*")


def show_sentences(found: Mapping[str, Sequence[Section]], key: str, otherwise: str) -> None:
    """Display what a section of the report says in words.

    Args:
        found: From `figures`.
        key: Of the section.
        otherwise: Said if it says nothing.
    """
    for env, of_env in found.items():
        sentences = [sentence for section in of_env if section.key == key for sentence in section.sentences]
        say(*([f"**{env}**"] if len(found) > 1 else []), *(sentences or [f"*Nothing: {otherwise}.*"]))


def show_table(frame: pd.DataFrame, otherwise: str) -> None:
    """Display a table.

    Args:
        frame: The table.
        otherwise: Said if it is empty.
    """
    if frame.empty:
        say(f"*No table: {otherwise}.*")
    else:
        display(frame)  # type: ignore[no-untyped-call]


def table(summary: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """A summary to read: estimates with their 95% intervals in brackets, a column a measure.

    Args:
        summary: As `convergence.summarise` gives it.
        measures: Of `convergence.MEASURES`. In times to target, `>=` marks a configuration
            with seeds that never hold it.
    """
    columns = {"configuration": summary["config"].astype(str)}
    columns["seeds finished"] = [seeds_finished(row) for _, row in summary.iterrows()]
    if summary["target"].notna().any():
        columns["seeds at target"] = [
            f"{n} of {of}" for n, of in zip(summary["num_reached"], summary["num_seeds"], strict=True)
        ]
    if "failure_probability" in summary:
        columns["worst seed"] = [f"{worst:.1f}" for worst in summary["score_min"]]
        columns["fails"] = [shares(row, "failure_probability") for row in summary.to_dict("records")]
    for measure in measures:
        columns[readable(measure)] = [_text(row, measure) for row in summary.to_dict("records")]
    return pd.DataFrame(columns).set_index("configuration")


def _text(row: Mapping[str, Any], measure: str) -> str:
    bound = measure.endswith("to_target") and 0 < row["num_reached"] < row["num_seeds"]
    never = measure.endswith("to_target") and row["num_seeds"] and not row["num_reached"]
    return "never" if never else f"{'>= ' if bound else ''}{with_interval(row, measure)}"


def fastest(summary: pd.DataFrame) -> str:
    """Which configuration runs fastest, in a sentence."""
    known = summary[summary["env_steps_per_s"].notna()]
    if known.empty:
        return "No finished trial has a throughput."
    rows = known.sort_values("env_steps_per_s", kind="stable").to_dict("records")
    slow, fast = ((row, with_interval(row, "env_steps_per_s")) for row in (rows[0], rows[-1]))
    if len(rows) == 1:
        return f"{code(fast[0]['config'])} runs at {fast[1]} env steps/s."
    return (
        f"The fastest is {code(fast[0]['config'])} at {fast[1]} env steps/s, "
        f"the slowest {code(slow[0]['config'])} at {slow[1]}."
    )


def on_the_front(summary: pd.DataFrame) -> str:
    """Which configurations nothing beats in both env steps and seconds to target, in a sentence."""
    costs = throughput.pareto(summary)
    if costs.empty:
        return "No seed holds a target, so there is no front of env steps against seconds to it."
    front = costs[costs["on_front"]].sort_values("seconds_to_target")
    beaten_by_none = named(list(front["config"]))
    return f"Of what mostly reaches the target nothing beats {beaten_by_none} in both env steps and seconds to target."


def comparisons(pairs: pd.DataFrame, chosen: str | None) -> pd.DataFrame:
    """One configuration against each of the others, the surest difference first.

    Args:
        pairs: From `convergence.pairwise`.
        chosen: The configuration.
    """
    found = turned(pairs, pairs["config_b"] == chosen)
    found = found[found["config_a"] == chosen].sort_values("p", kind="stable")
    return pd.DataFrame(
        {
            "against": found["config_b"].astype(str),
            "mean difference [95% interval]": _with_ends(found, "difference", "{:,.1f}".format),
            "p, corrected (Holm)": found["p_adjusted"].round(3),
            "chance to do better (%)": (100 * found["probability_of_improvement"]).round(),
            "common seeds": found["num_seeds"],
        }
    ).set_index("against")


def lr_batch_parts(study: Study, rng: np.random.Generator) -> list[LrBatch]:
    """The parts of a study in which learning rate and batch are searched; says why where there is none."""
    lr = scaling.learning_rate_axis(study.axes)
    if not {lr, "train_batch_size_total"} <= set(study.axes):
        axes = ", ".join(map(readable, study.axes)) or "nothing"
        say(
            f"**This study does not search learning rate and train batch together** (but {axes}): "
            "it has no answer to this question."
        )
        return []
    parts = []
    of_envs = study.evidence.of_envs
    for env, of_env in of_envs.items():
        for within, runs in scaling.slices(of_env.runs, study.axes, lr):
            label = " ".join(word for word in (env if len(of_envs) > 1 else "", within) if word)
            try:
                parts.append(lr_batch(label, runs, rng, study.replays(runs), lr))
            except AnalysisError as error:
                say(f"{label}: {error}" if label else error)
    return parts


def best_table(best: pd.DataFrame) -> pd.DataFrame:
    """`scaling.best_learning_rates` to read."""
    columns = {
        "train batch (transitions)": best["train_batch_size_total"],
        "peak of the fitted curve": _with_ends(best, "best_lr", _two_digits),
    }
    columns["largest area of those tried at"] = best["grid_best_lr"].map(rate)
    columns["open below"], columns["open above"] = (
        best[end].map({True: "yes", False: ""}) for end in ("low_open", "high_open")
    )
    columns["seeds"] = best["num_seeds"]
    return pd.DataFrame(columns).set_index("train batch (transitions)")


def _two_digits(value: float) -> str:
    return rate(float(f"{value:.2g}"))


def exponent_table(runs: pd.DataFrame) -> pd.DataFrame:
    """The exponent and the verdicts on the rules, a row for each measure that "best" can be judged by.

    Args:
        runs: Of an `LrBatch`.
    """
    rows = []
    for measure in scaling.MEASURES:
        try:
            found = scaling.exponent(runs, measure, scaling.learning_rate_axis(runs.columns))
        except AnalysisError:  # an env without a target has no env steps to it
            continue
        verdicts = {
            f"{rule} ({scaling.RULES[rule]:g})": "rejected" if out else "not rejected"
            for rule, out in found.rejected.items()
        }
        row = {"judged by": readable(measure), "exponent": found.estimate, "low": found.low, "high": found.high}
        rows.append({**row, **verdicts, "batches": found.num_batches, "seeds": found.num_seeds})
    table = pd.DataFrame(rows)
    return table.set_index("judged by").round(2) if rows else table


def tradeoff_table(batches: pd.DataFrame) -> pd.DataFrame:
    """`Tradeoff.batches` to read."""
    columns = {"train batch (transitions)": batches["train_batch_size_total"], "learning rate": batches["lr"].map(rate)}
    for cost in ("env_steps_to_target", "updates_to_target"):
        columns[readable(cost)] = _with_ends(batches, cost, "{:,.0f}".format)
    columns["seeds at target"] = [
        f"{n} of {of}" for n, of in zip(batches["num_reached"], batches["num_seeds"], strict=True)
    ]
    return pd.DataFrame(columns).set_index("train batch (transitions)")


def _with_ends(frame: pd.DataFrame, name: str, form: Callable[[float], str]) -> list[str]:
    """An estimate and its interval, row by row."""
    texts = []
    for x, low, high in zip(frame[name], frame[f"{name}_low"], frame[f"{name}_high"], strict=True):
        texts.append("-" if np.isnan(x) else form(x) if np.isnan(low) else f"{form(x)} [{form(low)}, {form(high)}]")
    return texts


def record(study: Study) -> pd.DataFrame:
    """The origin of a study's results, as its run has it; without names of the machine and its folders."""
    facts = study.provenance
    machine = {name: value for name, value in (facts.get("host") or {}).items() if name not in ("host", "platform")}
    changes = ("yes: the artifact uncommitted.diff" if facts["dirty"] else "no") if "dirty" in facts else "unknown"
    shown = {
        "commit": facts.get("commit") or "unknown",
        "uncommitted changes": changes,
        **{f"version of {package}": version for package, version in (facts.get("versions") or {}).items()},
        **machine,
        "command": command(study),
        "seeds": seeds_named(study.runs, study.seeds),
        "started (UTC)": f"{study.started:%Y-%m-%d %H:%M}",
    }
    return pd.DataFrame({"recorded": shown}).rename_axis("what")


def command(study: Study) -> str:
    """The command line that ran a study, without where it put its results."""
    return shlex.join(
        w for w in shlex.split(study.command) if w.partition("=")[0] not in ("output_dir", "tracking.uri", "tracking")
    )


def next_steps(study: Study) -> list[str]:
    """The next steps to know more, and their command lines, as Markdown."""
    asked = replace(study_command(study), command=command(study))
    steps = steps_of(answers(study.evidence), study.runs, asked)
    return [f"{step.sentence}\n\n```sh\n{step.command}\n```" for step in steps if step]


# Running them again.


def execute(path: Path, cwd: Path, study: str | None = None, tracking_uri: str | None = None) -> Any:
    """Run a notebook from top to bottom with this interpreter.

    Args:
        path: The notebook; the file stays as it is.
        cwd: Where it runs.
        study: Its parameter STUDY.
        tracking_uri: Its parameter TRACKING_URI.

    Returns:
        The notebook (nbformat's NotebookNode) with its outputs; its parameters read as in the file.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed.
    """
    import nbformat
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    given = next(cell for cell in notebook.cells if PARAMETERS in cell.metadata.get("tags", ()))
    as_written, given.source = given.source, f"STUDY = {study!r}\nTRACKING_URI = {tracking_uri!r}"
    where = {"metadata": {"path": str(cwd)}}
    with tempfile.TemporaryDirectory() as folder:
        kernel = AsyncKernelManager(
            kernel_name="python3",
            # Without folders to look in, it is this interpreter, and not one that was registered under that name.
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),
            # Over Unix sockets: TCP ports are open to everyone on the machine, and ipykernel warns of them.
            transport="ipc",
            connection_file=str(Path(folder) / "kernel.json"),
        )
        client = NotebookClient(notebook, timeout=TIMEOUT_S, km=kernel, resources=where, record_timing=False)
        client.execute(cleanup_kc=True)  # which ends the kernel
    given.source = as_written
    notebook.metadata["language_info"] = {"name": "python"}  # no diff for every release of Python
    return notebook


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    import nbformat

    given = dict(word.partition("=")[::2] for word in arguments)
    if unknown := set(given) - {"study", "tracking_uri"}:
        print(f"error: {unknown.pop()!r} is not understood. Usage: {(__doc__ or '').splitlines()[2]}", file=sys.stderr)
        return 2
    for path in sorted(FOLDER.glob("*.ipynb")):
        kind = nbformat.read(path, as_version=4).metadata["study"]  # type: ignore[no-untyped-call]
        executed = execute(path, Path.cwd(), given.get("study", kind), given.get("tracking_uri"))
        nbformat.write(executed, path)  # type: ignore[no-untyped-call]
        print(path.relative_to(FOLDER.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
