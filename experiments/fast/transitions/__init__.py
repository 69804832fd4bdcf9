"""What the fast replay buffers are made of: rows of transitions, priorities, and the part that both buffers share."""
