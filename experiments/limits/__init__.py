"""The limits that the operating system sets to this process, as Linux tells them. Standard library only."""
