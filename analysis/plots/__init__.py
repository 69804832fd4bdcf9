"""Figures: one per module, ``plot(frame, ..., ax=None) -> Axes``.

They draw what the frames hold and compute nothing.
"""
