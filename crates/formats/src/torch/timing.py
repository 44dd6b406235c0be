

class Clock:
    """Times calls on a device: the median of repeated calls, after a few warm-up calls.

    On a GPU, events are recorded before and after several calls that are queued back to back; elsewhere the clock is
    read once the device has finished. A repeated call finds its inputs in the caches, if they fit.
    """

    def __init__(self, device, budget=0.02, fewest=5, most=100):
        self.device = torch.device(device)
        self.budget, self.fewest, self.most = budget, fewest, most

    def wait(self):
        if self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize()

    def once(self, call, count):
        """Mean seconds of `count` calls."""
        self.wait()
        if self.device.type == "cuda":
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            for _ in range(count):
                call()
            after.record()
            after.synchronize()
            return before.elapsed_time(after) / 1e3 / count
        started = time.perf_counter()
        for _ in range(count):
            call()
        self.wait()
        return (time.perf_counter() - started) / count

    def seconds(self, call):
        """Median seconds of a call."""
        call()
        first = max(self.once(call, 1), 1e-9)
        # The overhead of an event or a wait is spread over several calls.
        count = 1 if self.device.type == "cpu" else max(1, min(50, int(5e-4 / first)))
        samples, started = [], time.perf_counter()
        while len(samples) < self.fewest or (time.perf_counter() - started < self.budget and len(samples) < self.most):
            samples.append(self.once(call, count))
        return statistics.median(samples)


def default_device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def class_of(device):
    """The name of a device class: `cpu`, or the product without its vendor, as in `h100-80gb-hbm3`."""
    device = torch.device(device)
    if device.type != "cuda":
        return device.type
    known = {"nvidia", "amd", "intel", "tesla", "geforce", "instinct", "r"}
    name = "".join(letter if letter.isalnum() else " " for letter in torch.cuda.get_device_name(device).lower())
    return "-".join(word for word in name.split() if word not in known) or device.type
