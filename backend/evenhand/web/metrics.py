"""Prometheus metrics: request timings of this service's web processes, and the store's counters."""

import os
import time
from collections.abc import Iterable

from flask import Blueprint, Flask, Response, g, request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest, multiprocess
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evenhand.store import Store
from evenhand.web.auth import access

BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
bp = Blueprint("metrics", __name__)


class StoreCollector(Collector):
    """Reads the counters that all processes share from the database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterable[Metric]:
        """Yield every metric the store knows."""
        store, now = self._store, self._store.clock()
        events = CounterMetricFamily("evenhand_events", "Webhook events.", labels=["kind", "outcome"])
        for row in store.events.counts():
            events.add_metric([row["kind"], row["outcome"]], row["count"])
        yield events
        yield GaugeMetricFamily(
            "evenhand_queue_age_seconds", "Age of the oldest waiting run.", value=store.runs.queue_age()
        )
        runs = CounterMetricFamily("evenhand_runs", "Runs by status.", labels=["status"])
        seconds = CounterMetricFamily("evenhand_run_seconds", "Time spent in runs.", labels=["status"])
        for row in store.runs.counts():
            runs.add_metric([row["status"]], row["count"])
            seconds.add_metric([row["status"]], row["seconds"] or 0.0)
        yield from (runs, seconds)
        published = GaugeMetricFamily("evenhand_publications", "Publications by state.", labels=["state"])
        for state, count in store.publications.states().items():
            published.add_metric([state], count)
        yield published
        yield GaugeMetricFamily("evenhand_problems_open", "Open problems.", value=len(store.problems.find()))
        yield from _project_metrics(store, now)


def _project_metrics(store: Store, now: float) -> Iterable[Metric]:
    """Ages and sizes per project."""
    event_age = GaugeMetricFamily("evenhand_last_event_age_seconds", "Since the last event.", labels=["project"])
    pull_age = GaugeMetricFamily("evenhand_last_pull_age_seconds", "Since the last pull.", labels=["project"])
    repaired = GaugeMetricFamily("evenhand_last_pull_repairs", "Rows the last pull repaired.", labels=["project"])
    answers = GaugeMetricFamily("evenhand_answers", "Judged answers.", labels=["project"])
    behind = GaugeMetricFamily("evenhand_live_behind", "Changes live evidence has not seen yet.", labels=["project"])
    for project in store.projects.all():
        label = [str(project.id)]
        answers.add_metric(label, project.counts.get("judged", 0))
        behind.add_metric(label, project.seq - project.live_seq)
        if project.last_event_at is not None:
            event_age.add_metric(label, now - project.last_event_at)
        if project.last_pull_at is not None:
            pull_age.add_metric(label, now - project.last_pull_at)
            repairs = (project.last_pull or {}).get("repaired", 0)
            repaired.add_metric(label, repairs if isinstance(repairs, int | float) else 0)
    return event_age, pull_age, repaired, answers, behind


def method_label(method: str) -> str:
    """The method for a label; made-up ones count as one, so that strangers cannot add series."""
    return method if method in METHODS else "other"


def init_app(app: Flask, store: Store) -> None:
    """Time every request; under several web processes the timings are shared through files."""
    registry = CollectorRegistry()
    timings = Histogram(
        "evenhand_request_seconds",
        "Time to answer.",
        ["endpoint", "method", "status"],
        buckets=BUCKETS,
        registry=registry,
    )
    app.extensions["evenhand_registry"] = registry
    app.extensions["evenhand_collector"] = StoreCollector(store)

    @app.before_request
    def start() -> None:
        g.evenhand_started = time.perf_counter()

    @app.after_request
    def stop(response: Response) -> Response:
        started = g.get("evenhand_started")
        if started is not None:
            labels = (request.endpoint or "none", method_label(request.method), str(response.status_code))
            timings.labels(*labels).observe(time.perf_counter() - started)
        return response

    app.register_blueprint(bp)


@bp.get("/metrics")
@access("metrics")
def metrics() -> Response:
    """Everything in Prometheus' text format."""
    from flask import current_app

    registry = CollectorRegistry()
    registry.register(current_app.extensions["evenhand_collector"])
    text = generate_latest(registry)
    if os.environ.get(MULTIPROCESS):
        shared = CollectorRegistry()
        multiprocess.MultiProcessCollector(shared)  # type: ignore[no-untyped-call]  # prometheus_client leaves it untyped
        text += generate_latest(shared)
    else:
        text += generate_latest(current_app.extensions["evenhand_registry"])
    return Response(text, content_type=CONTENT_TYPE_LATEST)
