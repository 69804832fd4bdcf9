"""Where a study's report is: while it runs, a page of how far it is, and then what it came to."""

from pathlib import Path


def report_file(experiment: str, study_run: str, output_dir: Path) -> Path:
    """Where a study's report goes unless one says otherwise.

    Args:
        experiment: Of its trials.
        study_run: The id of its run.
        output_dir: Where its files are.
    """
    return output_dir / "reports" / f"{experiment.replace('/', '-')}-{study_run[:8]}.html"


def partial_file(file: Path) -> Path:
    """Where a page is written before it takes the place of the one there."""
    return file.with_name(f".{file.name}.partial")


def write_page(file: Path, text: str) -> None:
    """Write a page, its folder too if need be; whoever reads it meanwhile has the one before, whole.

    Raises:
        OSError: It cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    partial_file(file).write_text(text, encoding="utf-8", errors="replace")
    partial_file(file).replace(file)
