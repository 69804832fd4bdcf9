"""One module a question, from a study's frames to its numbers."""
