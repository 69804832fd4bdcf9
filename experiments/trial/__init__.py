"""One (configuration, seed): the Trainable, its folder, evaluation, throughput measurement, resource usage."""
