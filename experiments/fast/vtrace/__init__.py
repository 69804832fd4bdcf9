"""Updates of IMPALA and APPO, and the returns that both learn from."""
