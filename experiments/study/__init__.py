"""A plan under Tune: driver, folder, interruption, watchdog, progress."""
