"""The parts of the fast replay buffers: rows of transitions, priorities, and the part that both buffers share."""
