"""Where a study comes from: a command line begins it, goes on with it, names it by a key, which means either,
or confirms what another one recommended.
"""

from experiments.config.schema import SuiteConfig
from experiments.config.trial_config import Compose
from experiments.study import lookup
from experiments.study.confirming import ClaimedBy, Confirming
from experiments.study.files.folder import StudyFolder
from experiments.study.key import StudyKey
from experiments.study.source import New, Resumed, Source
from experiments.tracking.place import Place


def source_of(suite: SuiteConfig, compose: Compose, place: Place, address: str | None, claimed_by: ClaimedBy) -> Source:
    """The study that a command line means.

    Args:
        suite: The settings of the study.
        compose: What they were composed with.
        place: The output folder and the store that keep the study, or will.
        address: Of the cluster to run on, or `local`; None if nothing says it.
        claimed_by: What a study said of what it recommended, for one that is to be confirmed.

    Raises:
        ConfigurationError: There is no such study, its key is another's, or a driver is at work on it.
    """
    if suite.resume is not None:
        folder = StudyFolder(lookup.folder_of(suite.resume, place))
        folder.take_modules(None if lookup.named_folder(str(suite.resume)) else place.output_dir)
        return Resumed(folder, suite.tracking, address, suite.dry_run)
    key = StudyKey.of(suite, compose, place.output_dir)
    if key is not None and (begun := key.begun()) is not None:
        return Resumed(begun, suite.tracking, address, suite.dry_run, key)
    if suite.confirm.study is not None:
        claimed = claimed_by(suite.confirm.study, suite.confirm.beside)
        return Confirming(suite, place, claimed, address, key)
    return New(suite, compose, place, address, key)
