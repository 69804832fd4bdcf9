"""Episodes of a policy as pictures: the best, the median and the worst of several, each as a small animation (WebP),
and as MP4.

All are played once to see how they end, and again to draw three of them: as the same batch,
since what a network rounds depends on it.
"""

import functools
import io
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import gymnasium as gym
import imageio_ffmpeg
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from experiments.config.errors import ConfigurationError, reason_of
from experiments.config.schema import EnvSettings
from experiments.policies.headless import draw_without_screen, why_not
from experiments.policies.policy import Policy

ANIMATION_BYTES = 2 * 10**6 // 3
"""Of one of three animations: 2 MB together."""
_ANIMATION_FRAMES = 120
_ANIMATION_S = 12.0
"""Longer episodes are shown faster."""
_LAST_FRAME_S = 1.0
_LEAST_WIDTH = 320
"""Pixels; smaller pictures are enlarged, so that words fit above them."""
_SMALLER = ((320, 60), (320, 40), (240, 40), (180, 30), (120, 20))
"""Width and WebP's quality of an animation, until it is small enough."""
_NEAR = 0.9
"""Of such a width, which a picture may have as well."""
_INK, _PAPER = (28, 36, 48), (242, 246, 250)

Frame = npt.NDArray[np.uint8]
"""(height, width, 3)."""


class NoPicturesError(Exception):
    """There are no pictures; the message is a clause that says why."""


@dataclass(frozen=True)
class Clip:
    """An episode in pictures.

    Attributes:
        role: `best`, `median` or `worst`.
        env_seed: Env seed of the episode.
        episode_return: Undiscounted.
        length: Env steps.
        webp: The animation, of `ANIMATION_BYTES` at most. Both files have return and seed written in them.
        mp4: All frames; None if they were not asked for.
    """

    role: str
    env_seed: int
    episode_return: float
    length: int
    webp: Path
    mp4: Path | None


def record(
    policy: Policy, env_seeds: Sequence[int], folder: Path, limit_s: float | None = None, mp4: bool = True
) -> list[Clip]:
    """Record the best, the median and the worst of some episodes of the deterministic policy.

    Args:
        policy: The policy.
        env_seeds: A seed per episode, each of an environment of its own.
        folder: Folder for the files.
        limit_s: Seconds that it may take; None: as many as it takes.
        mp4: Whether all frames are drawn and kept as MP4, beside the animations, which have a few.

    Raises:
        NoPicturesError: The environment draws none, or not within the limit.
    """
    draw_without_screen()
    env = replace(policy.trial.env, vectorize_mode="sync")
    frames_per_s = _frames_per_s(env)
    give_up = None if limit_s is None else monotonic() + limit_s
    try:
        found = policy.evaluate(env_seeds, env, watch=lambda envs, running: _check(give_up))
        order = np.argsort(-found.returns, kind="stable")
        # Of fewer than three episodes one is several of these, and drawn as the first.
        roles = {int(order[-1]): "worst", int(order[len(order) // 2]): "median", int(order[0]): "best"}
        places = {role: index for index, role in reversed(roles.items())}
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            cameras = {
                role: _Camera(
                    folder / role,
                    role,
                    float(found.returns[i]),
                    int(found.lengths[i]),
                    env_seeds[i],
                    frames_per_s,
                    files if mp4 else None,
                )
                for role, i in places.items()
            }

            def watch(envs: Any, running: npt.NDArray[np.bool_]) -> None:
                _check(give_up)
                for role, index in places.items():
                    if running[index]:
                        cameras[role].step(envs.unwrapped.envs[index])

            drawing = replace(env, env_config={**env.env_config, "render_mode": "rgb_array"})
            again = policy.evaluate(env_seeds, drawing, watch=watch)
    except ConfigurationError as error:
        cause = error.__cause__
        raise (cause if isinstance(cause, NoPicturesError) else NoPicturesError(str(error))) from None
    if not np.array_equal(found.returns, again.returns):
        raise NoPicturesError(f"{env.id} does not play an episode twice alike")
    return [camera.clip() for camera in cameras.values()]


def _check(give_up: float | None) -> None:
    if give_up is not None and monotonic() > give_up:
        raise NoPicturesError("drawing it takes too long here; evaluate.py video=true has no limit")


def _frames_per_s(env: EnvSettings) -> float:
    """Of an environment that draws.

    Raises:
        NoPicturesError: It does not.
    """
    try:
        made = gym.make(env.id, **env.make_arguments)
        metadata, problem = made.metadata, why_not(made)
        made.close()  # type: ignore[no-untyped-call]  # Gymnasium's
    except Exception as error:
        raise NoPicturesError(f"{env.id} cannot be made: {reason_of(error)}") from error
    if "rgb_array" not in metadata.get("render_modes", ()):
        raise NoPicturesError(f"{env.id} draws no pictures: rgb_array is not among its render modes")
    if problem:
        raise NoPicturesError(problem)
    return float(metadata.get("render_fps") or 30)


def _drawn(env: gym.Env[Any, Any]) -> Frame:
    frame = np.asarray(env.render())
    if frame.ndim != 3 or frame.shape[2] != 3:
        raise NoPicturesError(f"rgb_array of the environment is no picture, but of shape {frame.shape}")
    return frame.astype(np.uint8)


@dataclass
class _Camera:
    """Draws an episode."""

    stem: Path
    role: str
    episode_return: float
    length: int
    env_seed: int
    frames_per_s: float
    files: ExitStack | None
    steps: int = 0
    kept: list[Image.Image] = field(default_factory=list)
    send: Callable[[bytes], None] | None = None

    @property
    def every(self) -> int:
        """Of how many frames the animation has one."""
        return max(1, -(-self.length // _ANIMATION_FRAMES))

    @property
    def words(self) -> tuple[str, str]:
        """The lines of words above the pictures."""
        return f"{self.role} episode: return {self.episode_return:.4g}", f"env seed {self.env_seed}"

    def step(self, env: gym.Env[Any, Any]) -> None:
        """The next env step."""
        animated = self.steps % self.every == 0 or self.steps == self.length - 1
        self.steps += 1
        if self.files is None and not animated:
            return
        picture = _enlarged(Image.fromarray(_drawn(env)))
        if animated:
            self.kept.append(picture)
        if self.files is not None:
            self._film(_titled(picture, self.words), self.files)

    def _film(self, titled: Image.Image, files: ExitStack) -> None:
        if self.send is None:
            writer = imageio_ffmpeg.write_frames(
                str(self.stem.with_suffix(".mp4")),
                titled.size,
                fps=self.frames_per_s,
                macro_block_size=2,
                quality=7,
                output_params=["-preset", "veryfast"],
            )
            files.enter_context(closing(writer))
            writer.send(None)
            self.send = writer.send
        self.send(titled.tobytes())

    def clip(self) -> Clip:
        """Write the animation: the episode's files."""
        webp = self.stem.with_suffix(".webp")
        webp.write_bytes(self._animation())
        mp4 = None if self.files is None else self.stem.with_suffix(".mp4")
        return Clip(self.role, self.env_seed, self.episode_return, self.length, webp, mp4)

    def _animation(self) -> bytes:
        real_s = self.length / self.frames_per_s
        speed = max(1.0, real_s / _ANIMATION_S)
        first, second = self.words
        words = (first, second + (f", {speed:.1f} times as fast" if speed > 1 else ""))
        each_ms = 1000 * real_s / speed / len(self.kept)
        for width, quality in _SMALLER:
            pictures = [_titled(_wide(picture, width), words) for picture in self.kept]
            durations = [round(each_ms)] * (len(pictures) - 1) + [round(1000 * _LAST_FRAME_S)]
            target = io.BytesIO()
            pictures[0].save(
                target,
                "WEBP",
                save_all=True,
                append_images=pictures[1:],
                duration=durations,
                loop=0,
                quality=quality,
                method=2,
            )
            if target.tell() <= ANIMATION_BYTES:
                return target.getvalue()
        raise NoPicturesError(f"its animation does not fit into {ANIMATION_BYTES:,} bytes")


def _enlarged(picture: Image.Image) -> Image.Image:
    """With at least `_LEAST_WIDTH` pixels, pixel by pixel, and an even number of them either way,
    as the encoder wants them.
    """
    times = -(-_LEAST_WIDTH // picture.width)
    size = (picture.width * times // 2 * 2, picture.height * times // 2 * 2)
    return picture if size == picture.size else picture.resize(size, Image.Resampling.NEAREST)


def _wide(picture: Image.Image, width: int) -> Image.Image:
    """At most so many pixels wide: a whole fraction of the picture where one is near,
    which takes a fifth of the time.
    """
    times = int(picture.width / (_NEAR * width))
    if times > 1 and picture.width <= times * width:
        return picture.reduce(times)
    return picture.resize((width, max(2, round(picture.height * width / picture.width))), Image.Resampling.BILINEAR)


def _titled(picture: Image.Image, words: tuple[str, ...]) -> Image.Image:
    """A picture with lines of words above it."""
    title = _title(picture.width, words)
    titled = Image.new("RGB", (picture.width, picture.height + title.height))
    titled.paste(title, (0, 0))
    titled.paste(picture, (0, title.height))
    return titled


@functools.lru_cache(maxsize=8)
def _title(width: int, words: tuple[str, ...]) -> Image.Image:
    """Lines of words, an even number of pixels high."""
    size = max(9, width // 24)
    line = size * 4 // 3
    title = Image.new("RGB", (width, (line * len(words) + size // 2) // 2 * 2), _PAPER)
    draw, font = ImageDraw.Draw(title), ImageFont.load_default(size)
    for i, text in enumerate(words):
        draw.text((size // 2, size // 4 + i * line), text, fill=_INK, font=font)
    return title
