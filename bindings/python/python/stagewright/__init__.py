"""Stagewright decides where every operator of a neural network runs, and proves how good the decision is.

    import stagewright as sw

    model = sw.load("model.onnx", batch=8)
    problem = sw.Problem(model, "4xt4:fp32")
    plan = sw.plan(problem, time_limit=10)
    print(plan.value, plan.bound, plan.gap)

Times are in seconds, sizes in bytes. Placements are NumPy arrays with a device number for every operator, in the order
of ``problem.operators`` and ``problem.devices``. Errors are raised as ``StagewrightError``.
"""

from __future__ import annotations

from ._native import __version__, export_targets, families
from .comparison import Comparison, compare
from .errors import StagewrightError, StagewrightWarning
from .models import Graph, Model, cluster, from_torch, from_torch_training, load, show, workload
from .plans import Check, Export, Plan, check, plan, solvers
from .problems import Problem, Steps
from .program import program
from .tasks import Answer, Task

__all__ = [
    "Answer",
    "Check",
    "Comparison",
    "Export",
    "Graph",
    "Model",
    "Plan",
    "Problem",
    "StagewrightError",
    "StagewrightWarning",
    "Steps",
    "Task",
    "__version__",
    "check",
    "cluster",
    "compare",
    "export_targets",
    "families",
    "from_torch",
    "from_torch_training",
    "load",
    "plan",
    "program",
    "show",
    "solvers",
    "workload",
]
