"""RLlib, faster on one machine and with the same results. Needs nothing of this suite but itself."""
