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
