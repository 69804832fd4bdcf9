"""The report's parts: answer, wording, sections, template."""
