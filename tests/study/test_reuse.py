"""Trials that other studies have run whole are taken from the store: without Ray, which would run them."""

import io
import itertools
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient
from rich.console import Console

from analysis.document import conclusions
from analysis.document.caveats import caveats
from analysis.load import load_study
from analysis.stores.executions import executions
from experiments.config.errors import ConfigurationError
from experiments.config.trial_config import TrialConfig
from experiments.contract import FAILED, FINISHED, PRUNED, Tag
from experiments.limits.arithmetic import PORTABLE
from experiments.planning.configuration import Configuration
from experiments.planning.known import known_line
from experiments.planning.machines import Cluster, Node
from experiments.planning.plan import Plan
from experiments.planning.trials import StudyTrials
from experiments.study import driver
from experiments.study.driver import StudyOutcome, run_study
from experiments.study.files.folder import StudyFolder
from experiments.study.outcomes import Outcomes
from experiments.study.progress import Progress
from experiments.study.reuse import KnownTrials
from experiments.study.stream import EventStream
from experiments.study.trained import of_run
from experiments.study.tune.searcher import QueueSearcher
from experiments.tracking import provenance
from experiments.tracking.archive import Archive
from experiments.tracking.place import Place
from experiments.tracking.store import Store
from experiments.trial.events import Ended, Event, Placed, Reported, Restarted, Reused, Started
from experiments.trial.tune_keys import TRIAL
from tests.support.commands import run_here
from tests.support.known_studies import GRID, leave_policy, named, place_in, trained, with_events, write
from tests.support.mlflow_server import Server
from tests.support.planning import plan_for
from tests.support.studies import query
from tests.support.suite import PlanOf

NUMBERS = itertools.count()
COMMAND = "python run.py study=smoke"


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without runs, to copy: MLflow takes seconds to make one."""
    place = place_in(tmp_path_factory.mktemp("blank"))
    Store(place.store_uri, place.artifacts, place.timeout_s)
    return place.output_dir / "mlflow.db"


@pytest.fixture
def place(blank: Path, tmp_path: Path) -> Place:
    (tmp_path / "out").mkdir()
    shutil.copy(blank, tmp_path / "out" / "mlflow.db")
    return place_in(tmp_path / "out")


@pytest.fixture(scope="module")
def grid() -> Plan:
    return plan_for(*GRID)


@pytest.fixture
def again(grid: Plan) -> Plan:
    """The same study by another name, that no other test gives it."""
    return named(grid, f"again{next(NUMBERS)}")


@pytest.fixture(scope="module")
def ran(blank: Path, grid: Plan, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A store with the study, to which tests may add others, and no more."""
    place = place_in(tmp_path_factory.mktemp("ran"))
    shutil.copy(blank, place.output_dir / "mlflow.db")
    with pytest.MonkeyPatch.context() as then:
        then.setattr(provenance, "command_line", lambda: COMMAND)
        write(grid, place)
    return place


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> bool:
        raise AssertionError("a trial was started")

    monkeypatch.setattr(driver, "run_trials", refuse)


def begun(plan: Plan, place: Place) -> StudyFolder:
    folder = StudyFolder(place.studies / plan.study)
    folder.create(plan)
    return folder


def drive(plan: Plan, place: Place, folder: StudyFolder, resumed: bool = False) -> StudyOutcome:
    """Run a study that takes what is known."""
    console = Console(file=io.StringIO())
    return run_study(plan, folder, place, console, conclusions, resumed, known=KnownTrials(place))


def runs(place: Place, study: str) -> dict[str, Any]:
    """Name of a trial's run to the run."""
    client = MlflowClient(place.store_uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    found = client.search_runs(experiments, f"tags.kind = 'trial' and tags.study = '{study}'")
    return {run.info.run_name: run for run in sorted(found, key=lambda run: run.info.run_name)}


def points(place: Place, run: Any) -> list[Any]:
    """Every metric of a run, to the last digit and the millisecond."""
    sql = "SELECT key, step, timestamp, value FROM metrics WHERE run_uuid = ?"
    return sorted(query(place.output_dir / "mlflow.db", sql, run.info.run_id))


def number_known(plan: Plan, place: Place) -> int:
    return len(KnownTrials(place).of_plan(plan, None).trials)


def said(plan: Plan, place: Place, folder: StudyFolder | None = None) -> str:
    return known_line(plan, KnownTrials(place).of_plan(plan, folder))


def records(place: Place) -> list[Path]:
    """Files with the configurations of trials and where they come from."""
    return sorted(place.artifacts.rglob("config.json"))


@pytest.mark.usefixtures("nothing_runs")
def test_a_study_that_was_run_is_not_run_again_and_has_runs_of_its_own_with_the_same_curves(
    again: Plan, ran: Place
) -> None:
    outcome = drive(again, ran, begun(again, ran))
    assert outcome.exit_code == 0
    first, second = runs(ran, "smoke"), runs(ran, again.study)
    assert list(second) == list(first)
    assert len(second) == 4
    for name, run in second.items():
        origin, tags = first[name], run.data.tags
        assert points(ran, run) == points(ran, origin)
        assert run.data.params == origin.data.params
        assert tags[Tag.REUSED_FROM] == origin.info.run_id
        same = (Tag.WEIGHTS, Tag.CONFIG_ID, Tag.SEED, Tag.HOST, Tag.CPU, Tag.HEALTH, Tag.REPRODUCIBLE, Tag.RESTARTS)
        assert [tags.get(tag) for tag in same] == [origin.data.tags.get(tag) for tag in same]
        assert tags[Tag.HOST] == "here"
        assert (tags[Tag.EXCLUSIVE], run.info.status) == ("false", "FINISHED")
        assert run.info.start_time == origin.info.start_time
        assert run.info.end_time == max(at_ms for _, _, at_ms, _ in points(ran, run))
    assert [o.reused_from for o in outcome.outcomes] == [first[t.name].info.run_id for t in again.trials]


@pytest.mark.usefixtures("nothing_runs")
def test_its_frames_and_its_answer_are_those_of_the_study_that_ran(again: Plan, ran: Place) -> None:
    drive(again, ran, begun(again, ran))
    before, after = (load_study(name, ran.store_uri) for name in ("smoke", again.study))
    assert after.runs["score"].tolist() == before.runs["score"].tolist()
    for column in ("env_steps", "wall_s", "value"):
        assert after.curves[column].tolist() == before.curves[column].tolist()
    assert after.runs["reused_from"].tolist() == before.runs["run_id"].tolist()
    assert set(before.runs["reused_from"]) == {""}
    (first,), (second,) = (executions(name, ran.store_uri) for name in ("smoke", again.study))
    assert second.answers == first.answers
    assert first.answers
    own = [caveat for caveat in caveats(after.evidence) if caveat not in caveats(before.evidence)]
    (told,) = [caveat for caveat in own if "reuse=true" in caveat]
    assert told.startswith("4 of 4 trials were taken from other studies")
    assert "they would have learned the same to the bit" in told
    assert not [caveat for caveat in caveats(after.evidence) if "shared the machine" in caveat]


# What is taken, and what is not


def failing(event: Event) -> Event:
    return Ended(status=FAILED, env_steps=4096, reason="no") if isinstance(event, Ended) else event


def stopped_early(event: Event) -> Event | None:
    if isinstance(event, Ended):
        return Ended(status=PRUNED, env_steps=2048)
    return None if isinstance(event, Reported) and event.env_steps > 2048 else event


def irreproducible(event: Event) -> Event:
    return replace(event, reproducible=False) if isinstance(event, Reported | Ended) else event


def without_a_report(event: Event) -> Event | None:
    return None if isinstance(event, Reported) and event.env_steps == 2048 else event


@pytest.mark.parametrize("change", [failing, stopped_early, irreproducible, without_a_report])
def test_what_did_not_come_whole_to_its_end_is_run_again(change: Any, grid: Plan, again: Plan, place: Place) -> None:
    write(grid, place, with_events(change))
    none = "none of 4 trials: no other study in this store has run one of them whole"
    assert said(again, place) == f"known       {none}"


def test_another_configuration_seed_or_evaluation_is_another_trial(ran: Place, plan_of: PlanOf) -> None:

    def number(*words: str) -> int:
        return number_known(plan_of(*GRID, "study.name=again", *words), ran)

    assert number() == 4
    assert number("seeds=[1,2]") == 2
    assert number("study.space={algorithm.training.lr:[3e-3,1e-2]}") == 2
    assert number("repeats=2") == 4  # of 8
    for other in ("evaluation.final_episodes=7", "budget_env_steps=8192", "fast=false", "stop_at_target=true"):
        assert number(other) == 0


def test_a_trial_that_was_run_otherwise_is_run_again_and_it_is_said_what_differs(
    grid: Plan, again: Plan, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = {**provenance.packages(), "gone": "1.0", "scipy": "0.1"}
    with monkeypatch.context() as then:
        then.setattr(provenance, "own_code", lambda: "0123")
        then.setattr(provenance, "packages", lambda: packages)
        then.setenv("NVIDIA_TF32_OVERRIDE", "1")
        then.setenv("OMP_NUM_THREADS", "7")  # which the suite sets for trials, whatever the shell has
        write(grid, place)
    differs = (
        f"the suite's code 0123 -> {provenance.own_code()}, NVIDIA_TF32_OVERRIDE 1 -> none, "
        f"scipy 0.1 -> {provenance.packages()['scipy']}"
    )
    assert said(again, place) == (
        f"known       none of 4 trials. Run otherwise there, and so run again: 4 trials ({differs})"
    )


def _portable(configuration: Configuration) -> Configuration:
    suite = configuration.suite
    hardware = replace(suite.hardware, bits=PORTABLE)
    return replace(configuration, suite=replace(suite, bits=PORTABLE, hardware=hardware))


def test_a_trial_on_another_kind_of_machine_is_run_again_unless_its_bits_are_portable(
    grid: Plan, again: Plan, place: Place
) -> None:
    elsewhere = with_events(lambda e: replace(e, cpus=("another CPU",)) if isinstance(e, Placed) else e)
    write(grid, place, elsewhere)
    found = KnownTrials(place).of_plan(again, None)
    assert (len(found.trials), found.otherwise) == (0, 4)
    assert found.changes[0].startswith("CPU another CPU -> ")
    portable = replace(grid, configurations=[_portable(configuration) for configuration in grid.configurations])
    write(named(portable, "portable"), place, elsewhere)
    assert number_known(named(portable, "again"), place) == 4


def test_a_trial_that_measured_something_else_is_run_again(grid: Plan, again: Plan, place: Place) -> None:
    write(grid, place)
    first, *_ = records(place)
    record = json.loads(first.read_text())
    first.write_text(json.dumps({**record, "extension": {"of_mine": {"measure": True}}}))  # no part of the hash
    assert number_known(again, place) == 3


def test_a_trial_whose_record_is_gone_or_altered_is_run_again(grid: Plan, again: Plan, place: Place) -> None:
    write(grid, place)
    gone, altered, *_ = records(place)
    gone.unlink()
    altered.write_text(json.dumps({**json.loads(altered.read_text()), "budget_env_steps": 8192}))
    assert number_known(again, place) == 2


@pytest.mark.usefixtures("nothing_runs")
def test_of_an_asynchronous_algorithm_the_oldest_is_taken_as_a_sample(place: Place, plan_of: PlanOf) -> None:
    words = [word for word in GRID if "train_batch_size" not in word]
    plan = plan_of(*words, "algorithm=impala", cluster=Cluster((Node(4, 0),)))
    for name in ("first", "second"):
        write(named(plan, name), place)
    again = named(plan, "again")
    assert "Those of impala are samples of what another run would bring" in said(again, place)
    drive(again, place, begun(again, place))
    taken = [run.data.tags for run in runs(place, "again").values()]
    assert [tags[Tag.REUSED_FROM] for tags in taken] == [run.info.run_id for run in runs(place, "first").values()]
    assert {tags[Tag.REPRODUCIBLE] for tags in taken} == {"false"}
    found = caveats(load_study("again", place.store_uri).evidence)
    assert [caveat for caveat in found if "Those of impala are samples" in caveat]


def restarted(trial: TrialConfig) -> Iterator[Event]:
    """A trial that was taken up again twice."""
    first, *others = trained(trial)
    yield first
    yield Restarted(env_steps=0, reason="a process died", cause="process", count=2)
    yield from others


@pytest.mark.usefixtures("nothing_runs")
def test_what_was_taken_can_be_taken_again_from_where_it_ran_or_from_a_copy(
    grid: Plan, again: Plan, place: Place
) -> None:
    write(grid, place, restarted)
    drive(again, place, begun(again, place))
    third, fourth = named(grid, "third"), named(grid, "fourth")
    drive(third, place, begun(third, place))
    origins = {name: run.info.run_id for name, run in runs(place, "smoke").items()}
    taken = {name: run.data.tags for name, run in runs(place, "third").items()}
    assert {name: tags[Tag.REUSED_FROM] for name, tags in taken.items()} == origins
    assert {tags[Tag.RESTARTS] for tags in taken.values()} == {"2"}
    for run_id in origins.values():
        MlflowClient(place.store_uri).delete_run(run_id)
    drive(fourth, place, begun(fourth, place))
    copies = {run.info.run_id for study in (again.study, "third") for run in runs(place, study).values()}
    assert {run.data.tags[Tag.REUSED_FROM] for run in runs(place, "fourth").values()} < copies


@pytest.mark.usefixtures("nothing_runs")
def test_how_long_trials_take_is_told_by_those_that_ran(again: Plan, ran: Place) -> None:
    drive(again, ran, begun(again, ran))
    assert len(runs(ran, again.study)) == 4
    store = Store(ran.store_uri, ran.artifacts, 5.0)
    assert len(store.past_metrics("ppo", "cartpole", "final/score")) == 4


# A kill, and a resume


class KilledError(RuntimeError):
    """Stands for the end of the driver."""


def take(plan: Plan, place: Place, folder: StudyFolder, trial: TrialConfig, kill_after: int = 100) -> bool:
    """Take a trial, in a driver that is killed once so many events were told, if it comes to that."""
    stream, told = EventStream(folder, []), Counter[str]()
    stream.replay([trial])

    def stops(each: TrialConfig) -> bool:
        told[each.name] += 1
        if told[each.name] == kill_after:
            raise KilledError
        return False

    return KnownTrials(place).take(trial, plan, folder, stream, stops)


@pytest.mark.parametrize("kill_after", [1, 2, 4, 6])
def test_a_kill_in_between_leaves_a_beginning_with_which_a_resume_goes_on(
    kill_after: int, again: Plan, ran: Place
) -> None:
    source = StudyFolder(ran.studies / "smoke")
    folder, trial = begun(again, ran), again.trials[0]
    leave_policy(source.trial(trial), trial)
    with suppress(KilledError):
        take(again, ran, folder, trial, kill_after)
    assert len(folder.trial(trial).log.all()) == kill_after
    assert "0 trials are finished" in folder.standing(again)
    assert take(again, ran, folder, trial)
    kinds = [event.kind for event in folder.trial(trial).log.all()]
    assert kinds == ["reused", "placed", *["reported"] * 4, "ended"]
    assert folder.trial(trial).saved() == [trial.budget_env_steps]
    assert not take(again, ran, folder, trial)  # it is over
    assert "1 trials are finished" in folder.standing(again)


def test_a_trial_that_a_process_has_taken_up_goes_on_by_itself(again: Plan, ran: Place) -> None:
    folder, trial = begun(again, ran), again.trials[0]
    folder.trial(trial).log.add(Started())
    assert not take(again, ran, folder, trial)
    assert "known       3 of 4 trials, taken from other studies" in said(again, ran, folder)


def test_a_study_takes_nothing_from_itself(grid: Plan, place: Place) -> None:
    folder = write(grid, place)
    shutil.rmtree(folder.path / "trials" / grid.trials[0].folder_name)  # to run it again
    assert KnownTrials(place).of_plan(grid, folder).trials == []


def test_a_run_that_is_gone_after_the_plan_is_run_again(grid: Plan, again: Plan, place: Place) -> None:
    write(grid, place)
    known, folder = KnownTrials(place), begun(again, place)
    assert len(known.of_plan(again, folder).trials) == 4
    with closing(sqlite3.connect(place.output_dir / "mlflow.db")) as database, database:
        database.execute("DELETE FROM metrics")
    trial = again.trials[0]
    assert not known.take(trial, again, folder, EventStream(folder, []), lambda each: False)
    assert folder.trial(trial).log.all() == []


@pytest.mark.usefixtures("nothing_runs")
def test_a_study_that_was_killed_goes_on_with_what_is_known(again: Plan, ran: Place) -> None:
    folder = begun(again, ran)
    assert take(again, ran, folder, again.trials[0])
    with suppress(KilledError):
        take(again, ran, folder, again.trials[1], kill_after=3)
    assert drive(again, ran, folder, resumed=True).exit_code == 0
    first, second = runs(ran, "smoke"), runs(ran, again.study)
    assert list(first) == list(second)
    for name, run in second.items():
        assert points(ran, run) == points(ran, first[name])


# Searches


def asked(plan: Plan, place: Place, known: KnownTrials | None) -> tuple[list[Any], int]:
    """What a search asks for, in order, and how many of its trials run."""
    assert plan.search is not None
    folder = StudyFolder(place.studies / f"{plan.study}-{known is not None}")
    folder.create(plan)
    searcher, num_run = QueueSearcher(StudyTrials(plan), plan.search, folder, print), 0
    stream = EventStream(folder, [searcher])
    if known is not None:
        searcher.takes = lambda trial: known.take(trial, plan, folder, stream, lambda each: False)
    while (suggested := searcher.suggest("tunes")) != QueueSearcher.FINISHED:
        trial, num_run = TrialConfig.from_mapping(suggested[TRIAL]), num_run + 1
        for event in trained(trial):
            stream.record(trial, event)
    folder.close()
    return [(ask.point, ask.seed, ask.phase) for ask in searcher.queue.asked], num_run


@pytest.mark.parametrize(
    "search",
    [
        "search=racing search.max_seeds=2 seeds=[0]",
        "search=optuna search.num_samples=4",
        "search=random search.num_samples=2 confirmation.always=true",
    ],
    ids=lambda words: words.split()[0],
)
def test_a_search_is_told_at_once_what_is_known_and_asks_for_the_same(
    search: str, place: Place, plan_of: PlanOf
) -> None:
    confirmed = ("confirmation.top=1", "confirmation.seeds=[70,71]")
    plan = named(plan_of(*GRID, *search.split(), *confirmed), "search")
    without, num_run = asked(plan, place, None)
    assert num_run == len(without) >= 4
    write(plan_of(*GRID, "seeds=[0,1,70,71]"), place)
    known = KnownTrials(place)
    line = known_line(plan, known.of_plan(plan, None))
    assert "trials that the search may ask for, taken from other studies in this store" in line
    assert asked(plan, place, known) == (without, 0)


def test_a_rule_that_stops_trials_early_stops_one_that_is_known_where_it_would_have_stopped_it(
    again: Plan, ran: Place
) -> None:
    folder, trial, outcomes = begun(again, ran), again.trials[0], Outcomes()
    stream = EventStream(folder, [outcomes])
    assert KnownTrials(ran).take(trial, again, folder, stream, lambda t: outcomes.of(t).env_steps >= 2048)
    found = outcomes.of(trial)
    assert (found.status, found.env_steps) == (PRUNED, 2048)


# Policies, and where results come from


@pytest.mark.usefixtures("nothing_runs")
def test_the_policy_comes_with_the_trial_or_its_run_says_where_it_is(again: Plan, ran: Place) -> None:
    source = StudyFolder(ran.studies / "smoke")
    with_policy, without, *_ = again.trials
    leave_policy(source.trial(with_policy), with_policy)
    folder = begun(again, ran)
    drive(again, ran, folder)
    archive, own = Archive(ran), runs(ran, again.study)
    found = of_run(archive, own[with_policy.name].info.run_id, trust=False)
    assert [found.checkpoint.path] == folder.trial(with_policy).checkpoints()
    assert found.score == own[with_policy.name].data.metrics["final/score"]
    run = own[without.name]
    with pytest.raises(ConfigurationError, match=f"Name the trial that left it: run={run.data.tags[Tag.REUSED_FROM]}"):
        of_run(archive, run.info.run_id, trust=False)


@pytest.mark.usefixtures("nothing_runs")
def test_a_trial_keeps_the_record_of_where_its_results_were_made(again: Plan, ran: Place) -> None:
    drive(again, ran, begun(again, ran))
    for run in runs(ran, again.study).values():
        (path,) = (path for path in records(ran) if run.info.run_id in path.parts)
        assert json.loads(path.read_text())["provenance"]["command"] == COMMAND


# What is said before and meanwhile


def test_the_plan_says_how_many_are_known_and_what_that_saves(ran: Place, grid: Plan) -> None:
    words = (*GRID, "study.name=again", "seeds=[0,1,2]", "hardware.num_cpus=2", f"output_dir={ran.output_dir}")
    done = run_here("experiments/run.py", *words, "reuse=true", "dry_run=true")
    assert done.returncode == 0, done.stderr
    said_of_it = "known       4 of 6 trials, taken from other studies in this store and not run again: 16,384 env steps"
    assert said_of_it in done.stdout
    (head,) = [line for line in done.stdout.splitlines() if line.startswith("configuration")]
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("lr=")]
    assert head.split()[3] == "known"
    assert [row[3] for row in rows] == ["2", "2"]
    plain = run_here("experiments/run.py", *words, "dry_run=true")
    assert "known" not in plain.stdout


def test_without_a_store_nothing_is_known(grid: Plan, tmp_path: Path) -> None:
    assert number_known(grid, place_in(tmp_path)) == 0
    assert not list(tmp_path.iterdir())


def test_what_is_known_takes_no_time_in_the_progress(grid: Plan) -> None:
    trial, console = grid.trials[0], Console(file=io.StringIO(), width=140)
    with Progress(grid, console) as progress:
        for event in (Reused(run="r"), *list(trained(trial))[1:]):
            progress.on_event(trial, event)
        assert "1/4 trials finished, 1 known before, 25% of the env steps" in progress.overall()
        assert "time left not known yet" in progress.overall()


@pytest.mark.slow
def test_a_server_is_asked_as_a_file_is(grid: Plan, again: Plan, place: Place, tmp_path: Path) -> None:
    write(grid, place)
    (tmp_path / "served").mkdir()
    with (
        closing(sqlite3.connect(place.output_dir / "mlflow.db")) as source,
        closing(sqlite3.connect(tmp_path / "served" / "server.db")) as target,
    ):
        source.backup(target)
    server = Server(tmp_path / "served")
    try:
        served, folder, outcomes = replace(place, store_uri=server.uri), begun(again, place), Outcomes()
        assert said(again, served) == said(again, place)
        stream, trial = EventStream(folder, [outcomes]), again.trials[0]
        assert KnownTrials(served).take(trial, again, folder, stream, lambda each: False)
        assert outcomes.of(trial).status == FINISHED
    finally:
        server.kill()
