"""How good the searches are, replayed over the results of full grids in `data`."""
