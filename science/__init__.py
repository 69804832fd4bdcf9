"""The parts that one kind of study alone needs: a folder for each, which the rest of the suite
does not know (docs/extensions.md).
"""
