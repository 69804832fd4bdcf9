"""What whole studies take, and how well they learn: seconds, memory, scores."""
