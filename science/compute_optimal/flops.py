"""Floating-point operations of updates and actions, from the shapes of networks alone.

A linear layer takes a multiplication and an addition for each weight and row; so does the gradient of its weights, and
so does that of its inputs, which the first layer of a network does not need. That is the 2 N forward and 4 N backward
of Kaplan et al. (2001.08361, section 2.1), by which Rybkin et al. (2502.04327) count too, and exact where layers are
few. What is counted is what RLlib's learners compute (rllib/algorithms/dqn/torch/default_dqn_torch_rl_module.py,
rllib/algorithms/sac/torch/default_sac_torch_rl_module.py); activations, losses, optimizers, and target networks that
move are left out, as `torch.utils.flop_counter` leaves them out.
"""

from collections.abc import Sequence

Layers = Sequence[tuple[int, int]]
"""Inputs and outputs of each linear layer of a network; the first one alone sees what the network is given."""

_MULTIPLY_ADD = 2
"""Operations."""


def forward(layers: Layers, rows: int = 1) -> int:
    """Operations of a forward pass.

    Args:
        layers: Of the network.
        rows: Of its inputs.
    """
    return _MULTIPLY_ADD * rows * sum(inputs * outputs for inputs, outputs in layers)


def backward(layers: Layers, rows: int) -> int:
    """Operations of a backward pass: to all weights, and to the inputs of all layers but the first."""
    return forward(layers, rows) + forward(layers[1:], rows)


def dqn_update(network: Layers, rows: int, double_q: bool) -> int:
    """Operations of an update of DQN: the target network sees the next observations.

    Args:
        network: The Q network: encoder, then its head, or its two heads where they duel.
        rows: Of the training batch.
        double_q: Whether the Q network sees the next observations as well. RLlib puts them into one batch with the
            others, and takes the backward pass through both.
    """
    seen = (2 if double_q else 1) * rows
    return forward(network, seen) + backward(network, seen) + forward(network, rows)


def sac_update(policy: Layers, critic: Layers, rows: int, num_critics: int) -> int:
    """Operations of an update of SAC with continuous actions.

    The policy draws actions for observations, from which it learns, and for the next ones. Each critic learns from the
    batch; it weighs the first actions, whose gradient goes through it to its inputs alone; its target weighs
    the others.

    Args:
        policy: Encoder and head.
        critic: A perceptron of observation and action.
        rows: Of the training batch.
        num_critics: 1 or 2, each with a target network.
    """
    of_policy = 2 * forward(policy, rows) + backward(policy, rows)
    of_critic = 2 * forward(critic, rows) + backward(critic, rows) + 2 * forward(critic, rows)
    return of_policy + num_critics * of_critic
