"""Ray, its nodes, and what is asked of them before and while a study runs."""
