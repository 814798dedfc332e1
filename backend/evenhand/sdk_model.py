"""The same model for people who mount it in label-studio-ml's own server.

Works under label-studio-ml 1.0.9 (`init_app(EvenhandModel, model_dir=…)`) and 2.x (`init_app(EvenhandModel)`). Events
and predictions go to the store the environment describes, so `evenhand worker` on the same store does the analysis.
"""

import os
from typing import Any

from label_studio_ml.model import LabelStudioMLBase

from evenhand.errors import RequestError
from evenhand.ingest.events import handle_event
from evenhand.label_studio import payloads
from evenhand.projects.overview import NO_VERSION
from evenhand.publish.predictions import predict_tasks
from evenhand.settings import Settings
from evenhand.store import Store, open_store


class EvenhandModel(LabelStudioMLBase):  # type: ignore[misc]  # the SDK has no types
    """Predicts the consensus of the latest stored run, and ingests events."""

    def predict(self, tasks: list[dict[str, Any]], context: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        """One prediction per task, as /predict of our own server answers."""
        settings, store = _open()
        try:
            empty = {"result": [], "score": 0.0, "model_version": NO_VERSION}
            made = predict_tasks(store, settings, None, tasks)
            return [entry if isinstance(entry, dict) else dict(empty) for entry in made]
        finally:
            store.close()

    def fit(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Take an event: 1.x calls fit((), event=, data=, …), 2.x calls fit(event, data)."""
        event, data = kwargs.get("event"), kwargs.get("data")
        if event is None and len(args) >= 2:
            event, data = args[0], args[1]
        if not isinstance(event, str) or not isinstance(data, dict):
            return {}
        settings, store = _open()
        try:
            return handle_event(store, settings, payloads.read_event({**data, "action": event}))
        except RequestError as error:
            return {"ok": False, "error": {"code": error.code, "message": str(error)}}
        finally:
            store.close()

    def process_event(self, event: str, data: dict[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        """Newer 2.x: all events are ours to take, those too that are no training to the SDK."""
        return self.fit(event, data)


def _open() -> tuple[Settings, Store]:
    """The store the environment describes; opened per call, since 1.x forks a process for every event."""
    settings = Settings.from_env(os.environ)
    return settings, open_store(settings)
