"""Solving: limits, interrupts, signals, threads."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import stagewright as sw
from support import chain, cluster, is_solving, random_model

#: A search that runs until its limit, which is far beyond the duration of any test here.
ENDLESS = """
import sys
sys.path.insert(0, {tests!r})
import stagewright as sw
from support import cluster, random_model
problem = sw.Problem(random_model(300, 1), cluster(4), "makespan")
print("ready", flush=True)
"""


@pytest.fixture
def search() -> sw.Problem:
    return sw.Problem(random_model(300, 1), cluster(4), "makespan")


def script(body: str) -> subprocess.Popen[str]:
    code = ENDLESS.format(tests=str(Path(__file__).parent)) + body
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


#: Seconds after which a test is considered to hang.
PATIENCE = 600


def wait_until_it_solves(process: subprocess.Popen[str]) -> None:
    """Wait until a process has a thread for a solve: from then on, a signal interrupts the solve."""
    while not is_solving(process.pid):
        assert process.poll() is None
        time.sleep(0.01)


def test_an_interrupt_returns_the_best_plan() -> None:
    process = script(
        "plan = sw.plan(problem, 'annealing', time_limit=600, threads=1)\n"
        "print(plan.status, plan.stop, plan.value is not None, bool(sw.check(problem, plan)))\n"
    )
    wait_until_it_solves(process)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert out == "feasible interrupted True True\n", err


def test_a_second_interrupt_raises() -> None:
    # An episode of this solver takes longer than a second, and the solver checks for interrupts between episodes. A
    # timer of the process raises the interrupts, so that a busy machine delays both.
    process = script(
        "import signal\n"
        "from support import is_solving\n"
        "problem = sw.Problem(random_model(3000, 1), cluster(4), 'makespan')\n"
        "interrupts = 0\n"
        "def interrupt(number, frame):\n"
        "    global interrupts\n"
        "    if interrupts < 2 and is_solving():\n"
        "        interrupts += 1\n"
        "        raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, interrupt)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)\n"
        "try:\n"
        "    sw.plan(problem, 'gdp', time_limit=600, threads=1)\n"
        "except KeyboardInterrupt:\n"
        # While it shuts down, the interpreter restores the default action of the signal, which would end the process.
        "    signal.setitimer(signal.ITIMER_REAL, 0)\n"
        "    print('raised', flush=True)\n"
    )
    out, err = process.communicate(timeout=PATIENCE)
    assert out == "raised\n", err
    assert process.returncode == 0


def test_a_handler_that_raises_ends_the_solve(search: sw.Problem) -> None:
    def alarm(number: int, frame: object) -> None:
        # Raised before the solve, the exception would test nothing.
        if is_solving():
            raise TimeoutError("enough")

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        with pytest.raises(TimeoutError, match="enough"):
            sw.plan(search, "annealing", time_limit=PATIENCE, threads=1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupt_ends_an_evaluation() -> None:
    process = script(
        "import os\n"
        "import signal\n"
        "import numpy as np\n"
        "placements = np.zeros((2_000_000, 300), dtype=np.uint16)\n"
        "threads = len(os.listdir('/proc/self/task'))\n"
        "def interrupt(number, frame):\n"
        "    if len(os.listdir('/proc/self/task')) > threads:\n"
        "        signal.setitimer(signal.ITIMER_REAL, 0)\n"
        "        raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, interrupt)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)\n"
        "try:\n"
        "    problem.evaluate(placements, threads=1)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    out, err = process.communicate(timeout=PATIENCE)
    assert out == "interrupted\n", err


def test_a_signal_ends_a_bound() -> None:
    process = script(
        "import signal\n"
        "from support import is_solving\n"
        "def interrupt(number, frame):\n"
        "    if is_solving():\n"
        "        signal.setitimer(signal.ITIMER_REAL, 0)\n"
        "        raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, interrupt)\n"
        "problem = sw.Problem(random_model(3000, 1), cluster(4), 'makespan')\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)\n"
        "try:\n"
        "    problem.bound()\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    out, err = process.communicate(timeout=PATIENCE)
    assert out == "interrupted\n", err


def test_other_threads_run_during_a_solve(search: sw.Problem) -> None:
    counts = [0]

    def count() -> None:
        while not is_solving():
            time.sleep(0.001)
        while counts[0] < 50:
            counts[0] += 1
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=count)
    # If the lock were not released, the thread could not run, and nothing would end the solve before its limit.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        plan = sw.plan(search, "annealing", time_limit=PATIENCE, threads=1)
        assert plan.stop == "interrupted"
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert counts == [50]


def test_solves_run_in_any_thread() -> None:
    problem = sw.Problem(random_model(12, 2), cluster(2))
    values: list[float | None] = []
    threads = [
        threading.Thread(target=lambda: values.append(sw.plan(problem, "dp", threads=1).value)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(values) == 4 and values[0] is not None and set(values) == {values[0]}


def test_the_time_limit_is_kept(search: sw.Problem) -> None:
    plan = sw.plan(search, "annealing", time_limit=0.5, threads=1)
    assert (plan.status, plan.stop) == ("feasible", "time")


def test_a_gap_ends_the_search() -> None:
    problem = sw.Problem(random_model(30, 1), cluster(4), "makespan")
    plan = sw.plan(problem, gap=0.9, time_limit=PATIENCE, threads=1)
    assert plan.gap is not None and plan.gap <= 0.9 and plan.stop != "time"


def test_an_unknown_solver_is_refused() -> None:
    problem = sw.Problem(chain(), cluster(2))
    with pytest.raises(sw.StagewrightError) as raised:
        sw.plan(problem, "dpp")
    assert (raised.value.code, raised.value.place) == ("U003", "solver")
    assert raised.value.help is not None and "dp" in raised.value.help


def test_a_solver_of_another_objective_is_refused() -> None:
    problem = sw.Problem(chain(), cluster(2))
    assert "heft" in sw.solvers() and "heft" not in sw.solvers(problem) and "dp" in sw.solvers(problem)
    with pytest.raises(sw.StagewrightError) as raised:
        sw.plan(problem, "heft")
    assert raised.value.code == "U004"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("time_limit", -1.0),
        ("time_limit", 1e300),
        ("time_limit", math.inf),
        ("time_limit", math.nan),
        ("gap", 1.0),
        ("gap", -0.1),
        ("gap", math.nan),
        ("threads", 0),
        ("threads", -1),
        ("seed", -1),
        ("memory_limit", -1),
    ],
)
def test_wrong_options_are_refused(option: str, value: float) -> None:
    problem = sw.Problem(chain(), cluster(2))
    with pytest.raises(sw.StagewrightError) as raised:
        sw.plan(problem, **{option: value})  # type: ignore[arg-type]
    assert (raised.value.code, raised.value.place) == ("U001", option)


def test_every_solver_of_an_objective_answers() -> None:
    problem = sw.Problem(chain(5), cluster(2), "makespan")
    # The learned systems would take longest, but the limit ends them.
    for solver in sw.solvers(problem):
        plan = sw.plan(problem, solver, time_limit=0.2, threads=1)
        assert plan.status in ("optimal", "feasible", "unknown"), solver
        if plan.value is not None:
            assert sw.check(problem, plan), solver


def test_a_plan_of_a_sibling_is_a_start() -> None:
    small, large = (sw.Problem(random_model(count, 3), cluster(3), "makespan") for count in (40, 200))
    plan = sw.plan(small, "one-device")
    # Without time, the answer is the starting plan, which is worse here than the list schedules.
    found = sw.plan(large, "annealing", start=plan, time_limit=0.0, threads=1)
    assert sw.check(large, found)
    assert found.value > sw.plan(large, "heft").value
    rows = [{"name": name, "seconds": {"gpu": 1e-3}} for name in ("op0", "op1", "loss")]
    other = sw.Problem(sw.Graph(rows), cluster(3), "makespan")
    with pytest.warns(sw.StagewrightWarning, match="2 of 3 operators have a counterpart"):
        sw.plan(other, "annealing", start=plan, time_limit=0.1)
    with pytest.warns(sw.StagewrightWarning, match="`heft` does not start from a plan"):
        sw.plan(large, "heft", start=plan)
    nothing = sw.Problem(sw.Graph(rows[2:]), cluster(3), "makespan")
    with pytest.raises(sw.StagewrightError, match="no operator of the plan has a counterpart") as error:
        sw.plan(nothing, "heft", start=plan)
    assert error.value.code == "L006"
