"""A task of memory: the right action at the end of an episode is what its first observation said."""

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

ID = "Recall-v0"

_LONGEST = 200
"""Env steps of the longest episode."""


class Recall(gym.Env[npt.NDArray[np.float32], Any]):
    """A cue, steps without it, and a question that only the cue answers: as `memory_chain` of bsuite (Osband et al.
    2020, arXiv 1908.03568), with one cue of several and reward 0 in place of -1.

    A reset draws one of `num_cues` cues, all as likely, and shows it. Then come `delay` observations without it, and
    one that asks. The action there has reward 1 if it is the cue's, else 0, and ends the episode; all others change
    nothing. What is observed with the question does not depend on the cue, so every policy without memory has an
    expected return of 1 / num_cues. The best with memory has 1, and so has the best that observes the last delay + 2
    observations side by side.

    Observations, [num_cues + 2] floats: for each cue 1 where it is shown, else 0; a distractor, in each step another
    number between -1 and 1; 1 where the question is asked, else 0.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # Gymnasium declares it so

    def __init__(self, num_cues: int = 4, delay: int = 4, continuous: bool = False) -> None:
        """Check and set the task.

        Args:
            num_cues: Number of cues, and of actions.
            delay: Env steps between the one with the cue and the one with the question.
            continuous: Whether an action is a number between -1 and 1: the k-th of `num_cues` equal parts of that
                range is the action of the k-th cue.

        Raises:
            ValueError: One of them is outside its range; names it, and what to do.
        """
        if num_cues < 2:
            raise ValueError(f"num_cues={num_cues}: must be 2 or more, or there is nothing to remember")
        if not 0 <= delay <= _LONGEST - 2:
            raise ValueError(f"delay={delay}: must be between 0 and {_LONGEST - 2} env steps")
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (num_cues + 2,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else gym.spaces.Discrete(num_cues)
        self._num_cues, self._delay, self._continuous = num_cues, delay, continuous

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Draw a cue and show it."""
        super().reset(seed=seed)
        self._steps, self._cue = 0, int(self.np_random.integers(self._num_cues))
        return self._observation(), {}

    def step(self, action: Any) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Go on to the question, or be answered."""
        is_answer = self._is_asked()
        self._steps += 1
        return self._observation(), float(is_answer and self._named(action) == self._cue), is_answer, False, {}

    def _is_asked(self) -> bool:
        return self._steps == self._delay + 1

    def _observation(self) -> npt.NDArray[np.float32]:
        seen = np.zeros(self._num_cues + 2, np.float32)
        if self._steps == 0:
            seen[self._cue] = 1
        seen[-2] = self.np_random.uniform(-1, 1)
        seen[-1] = self._is_asked()
        return seen

    def _named(self, action: Any) -> int:
        """The cue whose action it is."""
        if not self._continuous:
            return int(action)
        return min(int((float(action[0]) + 1) / 2 * self._num_cues), self._num_cues - 1)


gym.register(ID, entry_point=f"{__name__}:Recall", max_episode_steps=_LONGEST)
