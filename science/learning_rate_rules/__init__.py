"""By which rule the learning rate should follow the batch (README.md)."""
