"""A driver without Ray, for tests: its cluster is on this machine, and the address is the number of workers.

It reads and writes the same lines as the driver in `bindings/python`. Tasks are assigned to the workers in turn, and
replies are written in the order in which they are made.
"""

import json
import queue
import subprocess
import sys
import threading

SPEAKING = threading.Lock()


def work(head: dict, tasks: queue.SimpleQueue) -> None:
    """Answers tasks with one process of the program."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([head["program"], *head["arguments"]], cwd=head["folder"], **pipes) as program:
        while (task := tasks.get()) is not None:
            print(json.dumps(task["request"]), file=program.stdin, flush=True)
            answer = json.loads(program.stdout.readline())
            with SPEAKING:
                print(json.dumps({"id": task["id"], **answer}), flush=True)
        program.stdin.close()


def main(count: int) -> None:
    """Assigns tasks to the workers in turn, until there are no more tasks."""
    head = json.loads(sys.stdin.readline())
    assert head["schema"] == "stagewright.tasks/1", head
    queues = [queue.SimpleQueue() for _ in range(count)]
    workers = [threading.Thread(target=work, args=(head, tasks)) for tasks in queues]
    for worker in workers:
        worker.start()
    for number, line in enumerate(sys.stdin):
        task = json.loads(line)
        if "id" not in task:
            break
        queues[number % count].put(task)
    for tasks in queues:
        tasks.put(None)
    for worker in workers:
        worker.join()


main(int(sys.argv[1]))
