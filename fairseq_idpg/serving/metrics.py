"""What the server counts, as Prometheus reads it."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
TEXTS = tuple(2**power for power in range(13))


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)

        of, on = "fairseq_idpg", self.registry
        self.requests = Counter("requests", "requests", ["path", "status"], of, registry=on)
        self.seconds = Histogram("predict_seconds", "of predictions", (), of, buckets=SECONDS, registry=on)
        self.texts = Counter("texts", "texts answered", (), of, registry=on)
        self.together = Histogram("together_texts", "texts answered together", (), of, buckets=TEXTS, registry=on)
        self.queue = Gauge("queue_texts", "texts that wait", (), of, registry=on)

    def watch(self, waiting: Callable[[], float]) -> None:
        """``waiting``: how many texts wait."""
        self.queue.set_function(waiting)

    def answered(self, texts: int) -> None:
        """Texts were answered together."""
        self.texts.inc(texts)
        self.together.observe(texts)

    def text(self) -> bytes:
        """All of them."""
        return generate_latest(self.registry)
