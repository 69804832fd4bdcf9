"""The part of the suite that runs studies: configuration in, MLflow runs out."""
