"""`.ci/debian`, where it cannot run: what it does where it can is seen at night."""

import shutil
import subprocess
from pathlib import Path

from tests.support.suite import ROOT


def test_what_a_bare_debian_is_built_with_is_named_where_it_is_missing(tmp_path: Path) -> None:
    for tool in ("bash", "dirname", "id"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    done = subprocess.run(
        [tmp_path / "bash", ROOT / ".ci/debian"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2  # which .ci/nightly takes for "skipped"
    assert done.stderr.startswith("error: .ci/debian needs ") and done.stderr.count("\n") == 1
