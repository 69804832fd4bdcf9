"""One (configuration, seed): the Trainable, its events and their log, its folder, evaluation,
throughput measurement, resource usage.
"""
