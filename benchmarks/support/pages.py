"""Pages that keep what was measured on other machines: the newest numbers first, then a section for each other one."""

import re

_MACHINE = re.compile(r"^- Machine: (?P<machine>.+?);", re.MULTILINE)
_SECTION = "\n## On "
_VERDICT = re.compile(r"^\*\*.+\*\*$", re.MULTILINE)


def machine_of(part: str) -> str:
    """The machine that the numbers of a page, or of a section, are of; "" if it does not say."""
    found = _MACHINE.search(part)
    return found["machine"] if found else ""


def with_others(now: str, before: str) -> str:
    """A page, and what an earlier one has of other machines.

    Args:
        now: Markdown, of one machine.
        before: Markdown, of one or several; "" if there is none.
    """
    own = machine_of(now)
    kept = [_as_section(part) for part in _parts(before) if machine_of(part) not in ("", own)]
    return "\n".join([now, *kept])


def part_of(page: str, machine: str) -> str:
    """What a page has of one machine; "" if nothing."""
    return next((part for part in _parts(page) if machine_of(part) == machine), "")


def _parts(page: str) -> list[str]:
    """What it has of each machine, the newest first."""
    first, *others = page.split(_SECTION)
    return [first, *(f"{_SECTION.lstrip()}{other}" for other in others)]


def _as_section(part: str) -> str:
    """Without what is the same on all machines: title, what is compared, notes."""
    if part.startswith(_SECTION.lstrip()):
        return part.rstrip() + "\n"
    verdict = _VERDICT.search(part)
    facts = part[part.index("\n- Command: ") + 1 :].partition("\n## Notes")[0].replace("\n## ", "\n### ")
    shown = [f"{_SECTION.lstrip()}{machine_of(part)}", verdict[0] if verdict else "", facts.rstrip()]
    return "\n\n".join(text for text in shown if text) + "\n"
