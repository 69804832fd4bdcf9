"""From a run or a folder that a person names to a checkpoint, and the score that its policy must reach."""

from dataclasses import dataclass
from pathlib import Path

from experiments.config.errors import ConfigurationError
from experiments.config.output_dir import stored_at
from experiments.contract import SCORE, Tag
from experiments.policies import checkpoint
from experiments.policies.checkpoint import Checkpoint
from experiments.storage.objects import Objects
from experiments.study.reproduction import trial_of
from experiments.tracking.archive import Archive, LoggedTrial
from experiments.trial.folder import TrialFolder
from experiments.trial.stored_folder import StoredTrialFolder


@dataclass(frozen=True)
class Trained:
    """A checkpoint that a person asked for.

    Attributes:
        named: What the person named: `run=0123...`.
        checkpoint: The newest one of the trial, or the one that was named.
        run_id: The trial's in MLflow; None if a folder was named.
        study_run: Its study's; likewise.
        score: What its policy reached in the trial's final evaluation; None if there was none with this checkpoint.
        why_no_score: The reason, if there is none.
        provenance: Where the trial's results come from.
    """

    named: str
    checkpoint: Checkpoint
    run_id: str | None
    study_run: str | None
    score: float | None
    why_no_score: str
    provenance: dict[str, object]

    @property
    def key(self) -> str:
        """A word for names of files."""
        found = self.checkpoint
        return self.run_id or f"{found.trial.folder_name}-{found.env_steps}"


def of_run(archive: Archive, run_id: str, trust: bool, named: str = "", vouch: str = "trust=true") -> Trained:
    """The newest checkpoint of a logged trial.

    Args:
        archive: The store that holds its run, and where studies of the person's own are.
        run_id: The id of the trial's run in MLflow.
        trust: Whether pickles from elsewhere may be opened.
        named: What the person named, for messages; by default `run=`.
        vouch: How a person says that they may, likewise.

    Raises:
        ConfigurationError: There is no such trial, it failed or has no checkpoint here,
            or its checkpoint cannot be used.
    """
    named, first = named or f"run={run_id}", archive.trial(run_id, named)
    if first.status == "FAILED":
        reason = first.tags.get(Tag.FAILURE, "for an unknown reason")
        raise ConfigurationError(f"{named} ({first.name}): the trial failed: {reason}. Name a run that finished.")
    found = newest_checkpoint(archive, first, trust, named, vouch)
    logged = first.curves.get(SCORE, {})
    score = logged[max(logged)] if logged and first.status == "FINISHED" and found.score is not None else None
    why = "" if score is not None else _why_no_score(first, found)
    return Trained(named, found, run_id, first.tags[Tag.STUDY_RUN], score, why, dict(first.provenance))


def newest_checkpoint(
    archive: Archive, first: LoggedTrial, trust: bool, named: str, vouch: str = "trust=true"
) -> Checkpoint:
    """The newest checkpoint of a trial whose run was read.

    Args:
        archive: The store that holds its run, and where studies of the person's own are.
        first: The trial.
        trust: Whether pickles from elsewhere may be opened.
        named: What the person named, for messages.
        vouch: How a person says that they may, likewise.

    Raises:
        ConfigurationError: There is none here, or it cannot be used.
    """
    trial = trial_of(first)
    folder = _study_folder(archive, first) / "trials" / trial.folder_name
    fetch(folder, f"{named} ({first.name})")
    if not folder.is_dir():
        raise ConfigurationError(
            f"{named} ({first.name}): its folder {folder} is not on this machine. Name the folder of its study: "
            "output_dir=/path, where studies/ is."
        )
    if (origin := first.tags.get(Tag.REUSED_FROM)) and not TrialFolder(folder).checkpoints():
        raise ConfigurationError(
            f"{named} ({first.name}): was taken from another study, without its policy, which was not at hand then. "
            f"Name the trial that left it: run={origin}."
        )
    newest = checkpoint.newest(folder, named)
    checkpoint.check_origin(newest, archive.where.output_dir, trust, named, vouch)
    found = checkpoint.read(newest, named)
    if (found.trial.config_id, found.trial.seed, found.trial.repeat) != (trial.config_id, trial.seed, trial.repeat):
        raise ConfigurationError(
            f"{named} ({first.name}): {newest} is another trial's checkpoint. Restore the study's folder."
        )
    return found


def of_folder(folder: Path, output_dir: Path, trust: bool, named: str = "", vouch: str = "trust=true") -> Trained:
    """A checkpoint by its folder, or the newest one of a trial's folder.

    Args:
        folder: The one or the other, absolute.
        output_dir: Where studies of the person's own are.
        trust: Whether pickles from elsewhere may be opened.
        named: What the person named, for messages; by default `checkpoint=`.
        vouch: How a person says that they may, likewise.

    Raises:
        ConfigurationError: There is none, or it cannot be used.
    """
    named = named or f"checkpoint={folder}"
    for trial in (path for path in (folder, *folder.parents) if path.parent.name == "trials"):
        fetch(trial, named)
    found = checkpoint.read(folder, named)
    checkpoint.check_origin(found.path, output_dir, trust, named, vouch)
    why = "" if found.score is not None else "the trial did not end with this checkpoint"
    return Trained(named, found, None, None, found.score, why, dict(found.provenance))


def fetch(folder: Path, named: str) -> None:
    """Bring a trial's folder to this machine, if it is kept in an object store.

    Args:
        folder: Where it is on this machine, or will be.
        named: What the person named, for messages.

    Raises:
        ConfigurationError: The store does not give it.
    """
    if (uri := stored_at(folder)) is None:
        return
    try:
        StoredTrialFolder(Objects(uri.rpartition("/trials/")[0]), folder.name, folder).fetch()
    except OSError as error:
        raise ConfigurationError(f"{named}: {error.filename} cannot be read ({error.strerror}).") from None


def _study_folder(archive: Archive, first: LoggedTrial) -> Path:
    """Where the study's files are: in the output folder, which may have been moved or copied,
    or where it wrote them.
    """
    named = archive.tag_of(first.tags.get(Tag.STUDY_RUN, ""), Tag.STUDY_FOLDER)
    if named is None:
        raise ConfigurationError(
            f"run={first.run_id} ({first.name}): the run of its study is gone, which says where its checkpoints are. "
            "Name the folder itself: checkpoint=outputs/studies/<study>/trials/<trial>."
        )
    here = archive.where.studies / Path(named).name
    if "://" in named and stored_at(here) != named:
        kept = named.rpartition("/studies/")[0]
        raise ConfigurationError(
            f"run={first.run_id} ({first.name}): its study is in {named}. Say that it is yours: output_dir={kept}."
        )
    return here if here.is_dir() or "://" in named else Path(named)


def _why_no_score(first: LoggedTrial, found: Checkpoint) -> str:
    if first.status == "RUNNING":
        return "the trial still runs"
    if first.status == "KILLED":
        return (
            f"the trial was interrupted, and this is its newest checkpoint, of {first.last_env_steps:,} "
            "env steps that it reported"
        )
    if SCORE not in first.curves:
        return "the trial was ended early, by the study's scheduler"
    return (
        f"the trial went on to {first.last_env_steps:,} env steps, and its last checkpoint was not written or is gone"
    )
