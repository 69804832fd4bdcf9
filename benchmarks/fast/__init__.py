"""Speed and memory of `experiments.fast`, side by side with RLlib's own parts and Stable-Baselines3."""
