"""How numbers, settings and names read in a figure."""

import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

_NAME_CHARS, _NAME_LINES = 24, 2
_KEY_CHARS = (8, 6, 4, 2)

_NAMES: Mapping[str, str] = {
    "lr": "learning rate",
    "lr_multiple": "learning rate (multiple of the base)",
    "update_to_data": "updates (per env step)",
    "train_batch_size_total": "train batch (transitions)",
    "minibatch_size": "minibatch (transitions)",
    "num_epochs": "epochs",
    "num_env_runners": "env runners",
    "num_envs_per_env_runner": "envs per env runner",
    "num_learners": "learners",
    "env_steps": "env steps",
    "wall_s": "wall-clock time (s)",
    "score": "score (mean return of the final evaluation)",
    "score_mean": "mean score (return of the final evaluation)",
    "score_median": "median score (return of the final evaluation)",
    "auc": "area under the learning curve (mean return)",
    "env_steps_to_target": "env steps to target",
    "updates_to_target": "updates to target (training batches)",
    "seconds_to_target": "seconds to target (training time)",
    "env_steps_per_s": "throughput (env steps/s)",
    "trained_steps_per_s": "training throughput (trained steps/s)",
    "train_s": "training time (s)",
    "diversity": "phase diversity of a training batch",
}


def readable(column: str) -> str:
    """A column's name in words, with its unit."""
    return _NAMES.get(column, column.replace("_", " "))


_SHORT: Mapping[str, str] = {
    "lr": "lr",
    "lr_multiple": "lr x",
    "train_batch_size_total": "batch",
    "minibatch_size": "minibatch",
    "num_env_runners": "runners",
    "num_envs_per_env_runner": "envs",
    "num_learners": "learners",
}


def setting(axis: str, value: object) -> str:
    """An axis and its value in words: ``train batch 4000 env steps``."""
    name, _, unit = readable(axis).partition(" (")
    return " ".join(part for part in (name, level(axis, value), unit.rstrip(")")) if part)


def short_setting(axis: str, value: object) -> str:
    """An axis and its value beside a line: ``lr 3e-3``; the value alone where the axis has no short name."""
    return " ".join(part for part in (_SHORT.get(axis, ""), level(axis, value)) if part)


def number(value: float) -> str:
    """Three significant digits: ``475``, ``8.54k``, ``1.2M``, ``3e-4``; a dash for NaN."""
    if not math.isfinite(value):
        return "\u2013"
    rounded = float(f"{value:.3g}")  # First, so that 999.9 becomes 1k and not 1e+03.
    size = abs(rounded)
    if size >= 1e9 or 0 < size < 1e-3:
        text = rate(rounded)
    elif size >= 1e6:
        text = f"{rounded / 1e6:.3g}M"
    elif size >= 1e3:
        text = f"{rounded / 1e3:.3g}k"
    else:
        text = f"{rounded:.3g}"
    return text.replace("-", "\u2212") if text.startswith("-") else text


def rate(value: float) -> str:
    """A small number as the configurations write it: ``3e-4``, ``0.1``."""
    text = f"{value:.4g}"
    if value and (abs(value) < 0.1 or abs(value) >= 1e4) and "e" not in text:
        text = f"{value:.3e}"
    mantissa, mark, exponent = text.partition("e")
    return f"{float(mantissa):g}e{int(exponent)}" if mark else text


def level(axis: str, value: object) -> str:
    """A value of a searched axis; whole numbers in full, for 4096 is not 4.1k."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return str(value)
    if axis in ("lr", "lr_multiple") or not float(value).is_integer():
        return rate(float(value))
    return str(int(value))


def interval(low: float, high: float) -> str:
    """``[488, 500]``; empty where there is no interval."""
    return f"[{number(low)}, {number(high)}]" if math.isfinite(low) and math.isfinite(high) else ""


def short_names(names: Sequence[str], chars: int = _NAME_CHARS, lines: int = _NAME_LINES) -> dict[str, str]:
    """Names that fit into a margin: wrapped, then with their keys cut, then cut in the middle.

    Args:
        names: Distinct names: of the whole study, so that all its figures call a configuration the same.
        chars: Of a line.
        lines: At most.

    Returns:
        Name -> text, in the same order. Where two would read the same, each begins with its number in `names`.
    """
    texts = {name: _fit(name, chars, lines) for name in names}
    if len(set(texts.values())) < len(texts):
        texts = {name: _fit(f"{i}: {name}", chars, lines) for i, name in enumerate(names, start=1)}
    return texts


def _fit(name: str, chars: int, lines: int) -> str:
    wrapped = textwrap.wrap(name, chars)
    if len(wrapped) > lines:
        # What tells configurations apart is the values: they stay whole.
        for key_chars in _KEY_CHARS:
            wrapped = textwrap.wrap(" ".join(_cut_key(word, key_chars) for word in name.split()), chars)
            if len(wrapped) <= lines:
                break
    if len(wrapped) > lines:
        room = chars * lines - 1
        cut = f"{name[: room // 2]}\u2026{name[-(room - room // 2) :]}"
        wrapped = [cut[start : start + chars] for start in range(0, len(cut), chars)]
    return "\n".join(wrapped)


def _cut_key(word: str, chars: int) -> str:
    """``train_batch_size_per_learner=512`` -> ``\u2026learner=512``."""
    key, equals, value = word.partition("=")
    return f"\u2026{key[-chars:]}={value}" if equals and len(key) > chars + 1 else word
