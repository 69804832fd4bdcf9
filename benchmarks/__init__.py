"""What the suite costs and how well it learns, as ratios against peers measured in the same run."""
