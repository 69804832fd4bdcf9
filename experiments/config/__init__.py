"""YAML to checked values: schema, search space, learning-rate rules, trial configuration, RLlib settings, errors."""
