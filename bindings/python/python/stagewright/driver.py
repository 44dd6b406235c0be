"""The driver between the program and a Ray cluster.

The program starts it as ``python3 -m stagewright.driver ADDRESS`` and exchanges JSON lines with it. On standard input,
the first line says how to start the program on a node, and each further line is a task::

    {"schema": "stagewright.tasks/1", "program": PATH, "arguments": [...], "folder": PATH}
    {"id": 0, "label": "...", "cpus": 1, "memory": null, "request": {...}}

It writes one line for each task to standard output: ``{"id": 0, "reply": ...}`` or ``{"id": 0, "error": "..."}``. Other
lines are ``{"note": "..."}`` and, before the driver gives up, ``{"no_ray": "..."}`` or ``{"no_cluster": "..."}``.

The driver ends when all tasks are answered and its input is closed. It ends at once, and cancels the tasks that are
running, on the line ``{"end": true}``, on SIGTERM, or when the program has ended.

A task is one Ray task. In the Ray process that runs it, the program stays alive between tasks and answers one request
after the other, so a task costs a few milliseconds. The module imports nothing from its package, and Ray sends its
functions to the nodes, so the nodes need only Ray and the program.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, TextIO

SCHEMA = "stagewright.tasks/1"

#: Failures of the program after which a task is given up.
TRIES = 3

#: Deaths of a node or of a Ray process after which a task is given up.
DEATHS = 20

#: Seconds between two checks of the parent process.
POLL = 0.5

#: Seconds to wait for a connection to the head node.
KNOCK = 10.0

#: Seconds between two checks of the cluster's size.
CENSUS = 10.0

#: Tasks handed to Ray for each task that the cluster can run at a time, so that no core waits for the driver.
AHEAD = 3

#: Events of the driver: what happened, and its data.
Event = tuple[str, Any]


class Failure(Exception):
    """The program on a node died, or wrote something that is not an answer."""


@dataclass
class Program:
    """The program on a node, which answers one request after the other."""

    process: subprocess.Popen[bytes]
    story: Any

    @staticmethod
    def start(head: dict[str, Any]) -> Program:
        """Start the program at its path or, if this node has no program there, the one on the search path."""
        path = head["program"]
        program = path if os.access(path, os.X_OK) else shutil.which("stagewright")
        if program is None:
            raise Failure(f"there is no {path} on {os.uname().nodename}, and no stagewright on its search path")
        folder = head["folder"]
        story = tempfile.TemporaryFile()  # noqa: SIM115
        process = subprocess.Popen(
            [program, *head["arguments"]],
            cwd=folder if os.path.isdir(folder) else None,
            env={**os.environ, **head.get("environment", {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=story,
            # A process group of its own, so that everything that it starts can be ended with it.
            start_new_session=True,
        )
        return Program(process, story)

    def answer(self, request: Any) -> dict[str, Any]:
        """Answer a request. Returns a dictionary with ``reply`` or ``error``."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise Failure(self.end())
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or len(answer) != 1 or not answer.keys() <= {"reply", "error"}:
            self.end()
            raise Failure(f"the program answered something unexpected: {line[:200].decode(errors='replace').strip()}")
        return answer

    def end(self) -> str:
        """End the program with everything that it started, and say how it ended."""
        # When its input ends, the program ends what it started.
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=2)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        self.story.seek(0)
        lines = [line for line in self.story.read().decode(errors="replace").splitlines() if line.strip()]
        error = next((line for line in lines if line.startswith("error")), lines[-1] if lines else "")
        return f"the program ended with code {code}" + (f": {error}" if error else "")


#: The programs that this Ray process has started, by the head that says how.
_programs: dict[str, Program] = {}


def answer(head: dict[str, Any], request: Any) -> dict[str, Any]:
    """Answer a request on a node. Returns a dictionary with ``reply``, ``error`` or, for a retry, ``failure``."""
    key = json.dumps(head)
    try:
        if key not in _programs:
            _programs[key] = Program.start(head)
        return _programs[key].answer(request)
    except (Failure, OSError) as failure:
        _programs.pop(key, None)
        return {"failure": str(failure)}


@dataclass
class Task:
    """A task without an answer."""

    line: dict[str, Any]
    failures: list[str] = field(default_factory=list)
    deaths: int = 0
    reference: Any = None


class Driver:
    """Keeps Ray busy with tasks, and reports their answers."""

    def __init__(self, ray: Any, head: dict[str, Any], events: queue.SimpleQueue[Event]) -> None:
        self.ray = ray
        self.head = ray.put(head)
        self.events = events
        # The driver counts deaths itself, so that a task that keeps killing its process is given up.
        self.remote = ray.remote(max_retries=0, scheduling_strategy="SPREAD")(answer)
        self.waiting: deque[Task] = deque()
        self.running: dict[int, Task] = {}
        self.cores = 1.0
        self.census_at = -CENSUS
        self.is_warned = False

    def census(self, cpus: float, memory: float | None) -> None:
        """Count the cores of the cluster, and warn if no node can run a task."""
        now = time.monotonic()
        if now - self.census_at < CENSUS:
            return
        self.census_at = now
        nodes = [node["Resources"].get("CPU", 0.0) for node in self.ray.nodes() if node["Alive"]]
        self.cores = max(sum(nodes), 1.0)
        if self.is_warned:
            return
        room = max((node["Resources"].get("memory", 0.0) for node in self.ray.nodes() if node["Alive"]), default=0.0)
        if max(nodes, default=0.0) < cpus:
            say({"note": f"no node of the cluster has {cpus} core(s) yet, so the tasks wait"})
        elif memory is not None and room < memory:
            say({"note": f"no node of the cluster has {memory} bytes of memory yet, so the tasks wait"})
        else:
            return
        self.is_warned = True

    def fill(self) -> None:
        """Hand waiting tasks to Ray, as many as it can use."""
        while self.waiting:
            cpus = self.waiting[0].line["cpus"]
            self.census(cpus, self.waiting[0].line.get("memory"))
            if len(self.running) > AHEAD * self.cores / cpus:
                return
            self.submit(self.waiting.popleft())

    def submit(self, task: Task) -> None:
        """Hand a task to Ray, whose answer will arrive as an event."""
        line = task.line
        number, memory = line["id"], line.get("memory")
        resources = {} if memory is None else {"memory": memory}
        options = {"num_cpus": line["cpus"], "name": line["label"], **resources}
        task.reference = self.remote.options(**options).remote(self.head, line["request"])
        self.running[number] = task
        future = task.reference.future()
        future.add_done_callback(lambda future: self.events.put(("answered", (number, future))))

    def settle(self, number: int, future: Any) -> None:
        """Report the answer of a task, or retry the task."""
        task = self.running.pop(number)
        task.reference = None
        try:
            found = future.result()
        except self.ray.exceptions.RayError as error:
            task.deaths += 1
            if task.deaths < DEATHS:
                self.waiting.appendleft(task)
                return
            cause = str(error).strip().splitlines()[0]
            found = {"error": f"its node or process died {DEATHS} times: {cause}"}
        if "failure" in found:
            task.failures.append(found["failure"])
            if len(task.failures) < TRIES:
                self.waiting.appendleft(task)
                return
            found = {"error": f"it failed {TRIES} times: {task.failures[-1]}"}
        say({"id": number, **found})

    def cancel(self) -> None:
        """Cancel all running tasks."""
        for task in self.running.values():
            with contextlib.suppress(Exception):
                self.ray.cancel(task.reference, force=True)


#: The stream to which :func:`say` writes.
_answers: list[TextIO] = []


def reserve_output() -> None:
    """Reserve standard output for :func:`say`, and redirect what Ray prints to standard error."""
    _answers.append(os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)


def say(line: dict[str, Any]) -> None:
    """Write a line to the program."""
    _answers[0].write(json.dumps(line) + "\n")
    _answers[0].flush()


def read(events: queue.SimpleQueue[Event]) -> None:
    """Turn the lines of standard input into events, until it is closed."""
    for text in sys.stdin:
        line = json.loads(text)
        if "schema" in line:
            events.put(("head", line))
        elif "id" in line:
            events.put(("task", line))
        else:
            events.put(("end", None))
    events.put(("closed", None))


def watch(events: queue.SimpleQueue[Event], parent: int) -> None:
    """End the driver when the program has ended, after which this process has another parent."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(POLL)
    events.put(("end", None))


def drive(ray: Any, head: dict[str, Any], events: queue.SimpleQueue[Event]) -> None:
    """Answer tasks until there are no more, or until the program asks the driver to end."""
    driver = Driver(ray, head, events)
    closed = False
    while not closed or driver.waiting or driver.running:
        event, data = events.get()
        if event == "task":
            driver.waiting.append(Task(data))
        elif event == "answered":
            driver.settle(*data)
        elif event == "closed":
            closed = True
        elif event == "end":
            driver.cancel()
            return
        driver.fill()


def connect(ray: Any, address: str) -> None:
    """Connect to the cluster at an address: ``auto``, or the host and port of its head node."""
    if address != "auto":
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"{address} is not HOST:PORT")
        # Checked first, because Ray waits for minutes if there is no head node.
        with socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK):
            pass
    ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)


def main(arguments: list[str]) -> int:
    """Run the driver, and return its exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python3 -m stagewright.driver ADDRESS\n")
        return 2
    reserve_output()
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    # The program decides how to react to an interrupt from the terminal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    threading.Thread(target=read, args=(events,), daemon=True).start()
    threading.Thread(target=watch, args=(events, parent), daemon=True).start()
    event, head = events.get()
    if event != "head" or head["schema"] != SCHEMA:
        sys.stderr.write(f"the first line is not of {SCHEMA}\n")
        return 2
    try:
        import ray
    except ImportError as error:
        say({"no_ray": str(error)})
        return 1
    try:
        connect(ray, arguments[0])
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        say({"no_cluster": (str(error).strip().splitlines() or [type(error).__name__])[0]})
        return 1
    signal.signal(signal.SIGTERM, lambda *_: events.put(("end", None)))
    try:
        drive(ray, head, events)
    except BrokenPipeError:
        return 1
    finally:
        ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
