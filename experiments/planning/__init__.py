"""Values to a plan: configurations, what they need, what the cluster has, what it costs."""
