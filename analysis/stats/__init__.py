"""Seeds to intervals, comparisons and tests. Knows no study."""
