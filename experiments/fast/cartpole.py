"""The step of Gymnasium's CartPole for many environments at once, with fewer and smaller NumPy operations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

Stepped = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.bool_], npt.NDArray[np.bool_], Any]


def step_of(env: Any) -> Callable[[npt.NDArray[np.int64]], Stepped] | None:
    """A function that does what `env.step` does, to the bit (gymnasium/envs/classic_control/cartpole.py).

    Positions and speeds are integrated in one operation for all of them, and nothing is drawn where no episode begins.

    Args:
        env: Vectorised environments. What is set on them later, such as another force, has its effect.

    Returns:
        None where they are not Gymnasium's own CartPole, or integrate or reward in another way.
    """
    if type(env) is not CartPoleVectorEnv or env.kinematics_integrator != "euler" or env._sutton_barto_reward:
        return None
    change, accelerations = np.empty((4, env.num_envs)), np.empty((2, env.num_envs))
    of_cart, of_pole = accelerations

    def step(action: npt.NDArray[np.int64]) -> Stepped:
        assert env.action_space.contains(action), f"{action!r} ({type(action)}) invalid"
        state = env.state
        assert state is not None, "Call reset before using step method."
        theta, theta_dot = state[2], state[3]
        cos, sin = np.cos(theta), np.sin(theta)
        push = np.square(theta_dot)
        push *= env.polemass_length
        push *= sin
        push += np.sign(action - 0.5) * env.force_mag
        push /= env.total_mass
        inertia = np.square(cos)
        inertia *= env.masspole
        inertia /= env.total_mass
        np.subtract(4.0 / 3.0, inertia, out=inertia)
        inertia *= env.length
        sin *= env.gravity
        sin -= cos * push
        np.divide(sin, inertia, out=of_pole)
        cos *= env.polemass_length * of_pole
        cos /= env.total_mass
        np.subtract(push, cos, out=of_cart)
        np.multiply(state[1::2], env.tau, out=change[::2])
        np.multiply(accelerations, env.tau, out=change[1::2])
        env.state = state = state + change

        terminated = np.abs(state[0]) > env.x_threshold
        terminated |= np.abs(state[2]) > env.theta_threshold_radians
        env.steps += 1
        truncated = env.steps >= env.max_episode_steps
        reward = np.ones(env.num_envs, dtype=np.float32)
        begins = env.prev_done
        if count := np.count_nonzero(begins):
            state[:, begins] = env.np_random.uniform(low=env.low, high=env.high, size=(4, count))
            env.steps[begins] = 0
            reward[begins] = 0.0
            terminated[begins] = False
            truncated[begins] = False
        env.prev_done = terminated | truncated
        return state.T.astype(np.float32), reward, terminated, truncated, {}

    return step
