"""Names that a folder may have, and that an address, a shell or Hydra reads as something else
if they are not quoted.
"""

NAMES = (
    "per%cent",
    "qu?estion",
    "#1",
    "with space",
    "größe",
    "a&b",
    "c:d@e",
    "s;emi",
    "it's",
    '"so"',
    "two\nlines",
    "back\\slash",
    "{brace}",
)
ODD = 'per%cent qu?estion #1 größe a&b c:d@e s;emi it\'s "so"'
"""Most of them at once."""
