"""All that touches Tune: what it is told of trials, what it notices of them, and what watches over their processes."""
