"""The parts of an update of the fast PPO learner: batch, minibatches, loss, gradient, statistics."""
