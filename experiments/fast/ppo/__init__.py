"""What an update of the fast PPO learner consists of: batch, minibatches, loss, gradient, statistics."""
