"""What the suite is compared with: scripts that an RLlib user and a Stable-Baselines3 user would write."""
