"""Models, clusters and problems that the tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import stagewright as sw

#: Codes for arrays with the wrong shape, type or range, and for unknown or missing names.
ARRAYS, NAMES = "Z001", "Z002"


def is_solving(process: int | str = "self") -> bool:
    """Whether a process has a thread for a solve or a bound, during which signals are checked."""
    for comm in Path(f"/proc/{process}/task").glob("*/comm"):
        try:
            if comm.read_text() == "stagewright\n":
                return True
        except OSError:
            # The thread has ended in the meantime.
            continue
    return False


def cluster(devices: int = 3, memory_bytes: float | None = None, host: bool = False) -> dict[str, Any]:
    """Devices of the class `gpu`, and a processor of the class `cpu` if `host` is set."""
    kind: dict[str, Any] = {
        "name": "gpu",
        "class": "gpu",
        "count": devices,
        "link": {"latency_s": 1e-5, "bandwidth": 1e9},
    }
    if memory_bytes is not None:
        kind["memory_bytes"] = memory_bytes
    kinds = [kind]
    classes: dict[str, Any] = {"gpu": {}}
    if host:
        classes["cpu"] = {}
        kinds.append({"name": "cpu", "class": "cpu", "count": 1, "host": True})
    return {"schema": "stagewright.cluster/1", "name": "test", "classes": classes, "kinds": kinds}


def random_model(operators: int, seed: int, *, colocate: bool = False) -> sw.Model:
    """A random graph with times for `gpu` and `cpu`. Every fifth operator cannot run on `cpu`."""
    random = np.random.default_rng(seed)
    rows = []
    for at in range(operators):
        seconds = float(random.uniform(1e-4, 2e-3))
        times = {"gpu": seconds} if at % 5 == 4 else {"gpu": seconds, "cpu": 10 * seconds}
        row: dict[str, Any] = {
            "name": f"op{at}",
            "seconds": times,
            "parameter_bytes": float(random.integers(1, 1000)),
            "activation_bytes": float(random.integers(1, 1000)),
        }
        if colocate and at % 4 < 2:
            row["colocation"] = f"pair{at // 4}"
        rows.append(row)
    tensors = []
    for at in range(operators - 1):
        readers = random.choice(np.arange(at + 1, operators), size=min(2, operators - at - 1), replace=False)
        tensors.append(
            {
                "producer": f"op{at}",
                "consumers": [f"op{reader}" for reader in sorted(readers.tolist())],
                "bytes": float(random.integers(1, 500_000)),
            }
        )
    return sw.Graph(rows, tensors, name=f"random {seed}")


def random_placements(problem: sw.Problem, count: int, seed: int) -> npt.NDArray[np.uint16]:
    """Random placements: most on all devices, and a few on only the first two."""
    random = np.random.default_rng(seed)
    shape = (count, len(problem.operators))
    placements = random.integers(0, len(problem.devices), size=shape, dtype=np.uint16)
    placements[::3] = np.minimum(placements[::3], 1)
    return placements


def chain(operators: int = 6) -> sw.Model:
    """A chain of equal operators."""
    rows = [{"name": f"op{at}", "seconds": {"gpu": 1e-3, "cpu": 1e-2}} for at in range(operators)]
    tensors = [{"producer": f"op{at}", "consumers": [f"op{at + 1}"], "bytes": 1000.0} for at in range(operators - 1)]
    return sw.Graph(rows, tensors, name="chain")
