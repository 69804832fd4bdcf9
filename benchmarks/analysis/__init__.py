"""What reading a study and reporting on it take."""
