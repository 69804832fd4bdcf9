"""V-trace beside RLlib's: the same bits."""

import pytest
import torch
from ray.rllib.algorithms.impala.torch.vtrace_torch_v2 import make_time_major, vtrace_torch

from experiments.fast.vtrace.returns import Returns, cut


def test_rows_are_cut_as_rllib_cuts_them() -> None:
    for rows in (torch.arange(12.0), torch.arange(13.0), torch.arange(13) > 4, torch.arange(3.0)):
        assert torch.equal(cut(rows, 4).t(), make_time_major(rows, trajectory_len=4))


@pytest.mark.parametrize("rows", [1, 24, 29])
@pytest.mark.parametrize("limits", [(1.0, 1.0), (0.7, 1.3), (None, None)])
def test_targets_and_advantages_are_those_of_rllib(rows: int, limits: tuple[float | None, float | None]) -> None:
    torch.manual_seed(rows)
    columns = [torch.randn(rows) for _ in range(4)]
    columns.append(torch.where(torch.rand(rows) < 0.2, 0.0, 0.9))
    target, behaviour, rewards, values, discounts = columns
    by_time = [make_time_major(column, trajectory_len=8) for column in columns]
    expected = vtrace_torch(
        target_action_log_probs=by_time[0],
        behaviour_action_log_probs=by_time[1],
        rewards=by_time[2],
        values=by_time[3],
        bootstrap_values=torch.cat([by_time[3][0][1:], by_time[3][0][:1]]),
        discounts=by_time[4],
        clip_rho_threshold=limits[0],
        clip_pg_rho_threshold=limits[1],
    )
    returns = Returns(cut(rewards, 8), cut(discounts, 8), *limits)
    returns.weigh(cut(target, 8), cut(behaviour, 8))
    for ours, theirs in zip(returns.of(cut(values, 8)), expected, strict=True):
        assert torch.equal(ours.t(), theirs)
