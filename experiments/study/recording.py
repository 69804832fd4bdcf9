"""Video of a trained policy, among the artifacts of its run and of its study's,
where the report finds the animations.
"""

from collections.abc import Sequence
from pathlib import Path

from experiments.config.errors import first_line
from experiments.contract.words import labelled
from experiments.policies.policy import Policy
from experiments.policies.video import NoPicturesError, record
from experiments.study.trained import Trained
from experiments.tracking.archive import Archive

REPORT_EPISODES = 10
"""Of which a report shows three: of all held-out ones it would take too long."""
REPORT_LIMIT_S = 20.0


def record_and_attach(
    trained: Trained,
    policy: Policy,
    folder: Path,
    archive: Archive | None,
    seed: str = "",
    env_seeds: Sequence[int] | None = None,
    limit_s: float | None = None,
) -> list[str]:
    """Record a policy, and attach the files to its run.

    Args:
        trained: The checkpoint.
        policy: Its policy.
        folder: For the files.
        archive: The store that has its run; None: there is no run.
        seed: What it is to its study, `best` or `median`, whose run gets the files as well; "": nothing.
        env_seeds: Of the episodes of which the best, the median and the worst are drawn;
            None: the trial's held-out ones.
        limit_s: Seconds that drawing may take, where a report alone is to be illustrated, by animations;
            None: as many as it takes.

    Returns:
        Lines that say where the files are, or why there are none.
    """
    try:
        clips = record(
            policy, policy.held_out_seeds() if env_seeds is None else env_seeds, folder, limit_s, mp4=limit_s is None
        )
    except NoPicturesError as error:
        return [labelled("video", f"none: {error}")]
    lines = [
        labelled(
            "video",
            f"{clip.mp4 or clip.webp} ({clip.role}: return {clip.episode_return:.4g}, env seed {clip.env_seed})",
        )
        for clip in clips
    ]
    if archive is None or trained.run_id is None:
        return lines
    try:
        archive.log_files(trained.run_id, folder, "video")
        if seed and trained.study_run:
            archive.log_files(trained.study_run, folder, f"video/{policy.trial.env.name}/{seed}-seed")
    except OSError as error:  # the files are there, whatever the store does
        return [*lines, labelled("", f"not in MLflow: {first_line(error)}")]
    return [*lines, labelled("", f"and among the artifacts of run {trained.run_id}, video/")]
