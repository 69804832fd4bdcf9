"""RLlib, faster on one machine and with the same results: `switch.make_fast`.

Needs nothing of this suite but itself.
"""
