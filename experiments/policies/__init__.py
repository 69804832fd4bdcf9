"""Policies: a trial's checkpoint in use, evaluated, exported and shown."""
