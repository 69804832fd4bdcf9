"""What happens in a study, written to MLflow: writer, store, views, provenance."""
