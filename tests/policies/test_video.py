"""Episodes as pictures: which ones, what is written in them, how large they are."""

from pathlib import Path
from typing import Any

import imageio_ffmpeg
import pytest
import torch
from PIL import Image

from experiments.policies import video
from experiments.policies.policy import Policy
from experiments.policies.video import ANIMATION_BYTES, NoPicturesError, record
from tests.support.suite import PlanOf
from tests.support.trials import COUNT, tiny


class ByAngle(torch.nn.Module):
    """Stands where an RLModule does: pushes towards where CartPole's pole leans, and so falls sooner or later."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def _forward_inference(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"actions": (batch["obs"][:, 2] > 0).long()}

    def is_stateful(self) -> bool:
        return False


@pytest.fixture
def policy(plan_of: PlanOf) -> Policy:
    return Policy(tiny(plan_of, "env=cartpole"), ByAngle(), None, True, False, 0)  # type: ignore[arg-type]


def frames(file: Path) -> tuple[int, tuple[int, int]]:
    reader = imageio_ffmpeg.read_frames(str(file))
    size = next(reader)["size"]
    return sum(1 for _ in reader), size


def test_the_best_the_median_and_the_worst_episode_are_drawn_whole(policy: Policy, tmp_path: Path) -> None:
    env_seeds = [11, 12, 13, 14, 15]
    clips = record(policy, env_seeds, tmp_path / "video")
    assert [clip.role for clip in clips] == ["best", "median", "worst"]
    best, median, worst = (clip.episode_return for clip in clips)
    assert best > median > worst
    for clip in clips:
        assert clip.env_seed in env_seeds
        assert clip.length == clip.episode_return  # CartPole's reward is 1
        assert clip.mp4 is not None
        count, (width, height) = frames(clip.mp4)
        assert count == clip.length
        assert width == 600
        assert 400 < height < 480  # with words above
        assert clip.webp.stat().st_size <= ANIMATION_BYTES
        with Image.open(clip.webp) as animation:
            assert animation.n_frames <= clip.length
            assert animation.width == 300  # half of the picture's 600
            assert animation.info["loop"] == 0


def test_a_clip_is_the_episode_of_its_seed(policy: Policy, tmp_path: Path) -> None:
    import gymnasium as gym

    clip = record(policy, [11, 12, 13], tmp_path)[-1]
    env: Any = gym.make("CartPole-v1")
    observation, _ = env.reset(seed=clip.env_seed)
    length, done = 0, False
    while not done:
        observation, _, terminated, truncated, _ = env.step(int(observation[2] > 0))
        length, done = length + 1, terminated or truncated
    assert length == clip.length


def test_words_are_drawn_above_the_picture() -> None:
    picture = Image.new("RGB", (320, 100), (255, 0, 0))
    titled = video._titled(picture, ("worst episode: return 9", "env seed 11"))
    above = titled.crop((0, 0, 320, titled.height - 100))
    assert titled.crop((0, titled.height - 100, 320, titled.height)).getcolors() == [(32000, (255, 0, 0))]
    assert above.height % 2 == 0
    assert len(above.getcolors()) > 2  # paper, ink, and what lies between
    assert video._titled(picture, ("worst episode: return 8", "env seed 11")).tobytes() != titled.tobytes()


def test_long_episodes_are_shown_faster_and_whole(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(video, "_ANIMATION_S", 0.1)
    monkeypatch.setattr(video, "_ANIMATION_FRAMES", 4)
    clip = record(policy, [11], tmp_path)[0]
    with Image.open(clip.webp) as animation:
        assert 4 <= animation.n_frames + 1 <= 6  # equal neighbours are one
    assert frames(clip.mp4)[0] == clip.length


def test_an_animation_that_would_be_too_large_is_made_smaller(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    normal = record(policy, [11], tmp_path)[0].webp.stat().st_size
    monkeypatch.setattr(video, "ANIMATION_BYTES", normal // 2)
    clip = record(policy, [11], tmp_path)[0]
    assert clip.webp.stat().st_size <= normal // 2
    monkeypatch.setattr(video, "ANIMATION_BYTES", 10)
    with pytest.raises(NoPicturesError, match="does not fit"):
        record(policy, [11], tmp_path)


def test_an_environment_that_draws_nothing_is_said_to(plan_of: PlanOf, tmp_path: Path) -> None:
    blind = Policy(tiny(plan_of, *COUNT), ByAngle(), None, True, False, 0)  # type: ignore[arg-type]
    with pytest.raises(NoPicturesError, match="draws no pictures: rgb_array"):
        record(blind, [1], tmp_path)


def test_what_takes_too_long_is_given_up(policy: Policy, tmp_path: Path) -> None:
    with pytest.raises(NoPicturesError, match="takes too long"):
        record(policy, [1, 2, 3], tmp_path, limit_s=-1.0)


def test_animations_alone_draw_a_few_frames_and_are_the_same(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    real = video._drawn
    monkeypatch.setattr(video, "_drawn", lambda env: drawn.append(env) or real(env))
    with_mp4 = record(policy, [11, 12, 13], tmp_path / "all")
    all_frames = len(drawn)
    alone = record(policy, [11, 12, 13], tmp_path / "few", mp4=False)
    assert all_frames == sum(clip.length for clip in with_mp4) >= len(drawn) - all_frames
    assert [clip.webp.read_bytes() for clip in alone] == [clip.webp.read_bytes() for clip in with_mp4]
    assert {file.name for file in (tmp_path / "few").iterdir()} == {"best.webp", "median.webp", "worst.webp"}
    assert {clip.mp4 for clip in alone} == {None}
