"""The examples run."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_a_policy_is_trained_and_compared() -> None:
    pytest.importorskip("gymnasium")
    pytest.importorskip("pandas")
    command = [sys.executable, EXAMPLES / "train_policy.py", "--seconds", "2", "--time-limit", "1"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert found.returncode == 0, found.stderr
    rows = [line.split() for line in found.stdout.splitlines()]
    policies = [row for row in rows if row[1:2] == ["policy"]]
    assert len(policies) == 2 and all(row[3] == "feasible" for row in policies), found.stdout
    # The quality of the result depends on the number of placements that the machine tries in that time.
    value, bound = float(policies[1][4]), float(policies[1][5])
    assert bound <= value < math.inf
