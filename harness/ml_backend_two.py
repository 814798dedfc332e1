"""Stands in for label-studio-ml 2.x, which no package index has: calls a model as that server's source does.

Import it before anything imports `label_studio_ml`. What it is made after: `init_app` takes no folder, each request
makes a model from a project's id and label config, `/predict` passes the context and all other parameters by name,
`/webhook` calls `fit(event, data)` within the request for events on its list, which lacks the plural names; its newest
source asks the model instead, by `process_event(event, data, job_id, additional_params)`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from flask import Flask, Response, jsonify, request

TRAIN_EVENTS = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATION_DELETED", "START_TRAINING")


class LabelStudioMLBase:
    """The base class of 2.x, as far as models see it."""

    def __init__(self, project_id: str | None = None, label_config: str | None = None) -> None:
        self.project_id, self.label_config = project_id or "", label_config
        self.setup()

    def setup(self) -> None:
        """Models may prepare themselves."""


def init_app(model_class: Any, basic_auth_user: str | None = None, basic_auth_pass: str | None = None) -> Flask:
    """The server for a model."""
    server = Flask("label_studio_ml.api")

    def model(project: Any, label_config: Any) -> Any:
        return model_class(project_id=str(project).split(".", 1)[0], label_config=label_config)

    @server.post("/predict")
    def predict() -> Response:
        data = request.get_json()
        params = data.get("params", {})
        context = params.pop("context", {})
        made = model(data.get("project"), data.get("label_config"))
        return jsonify({"results": made.predict(data["tasks"], context=context, **params)})

    @server.post("/setup")
    def setup() -> Response:
        model(request.get_json()["project"], request.get_json().get("schema"))
        return jsonify({"model_version": "0.0.1"})

    @server.post("/webhook")
    def webhook() -> tuple[Response, int]:
        data = request.get_json()
        event = data.pop("action")
        if event not in TRAIN_EVENTS:
            return jsonify({"status": "Unknown event"}), 200
        made = model(data["project"]["id"], data["project"]["label_config"])
        return jsonify({"result": made.fit(event, data), "status": "ok"}), 201

    @server.get("/health")
    def health() -> Response:
        return jsonify({"status": "UP", "model_class": model_class.__name__})

    return server


CONTENT: dict[str, dict[str, Any]] = {
    "label_studio_ml": {},
    "label_studio_ml.api": {"init_app": init_app},
    "label_studio_ml.model": {"LabelStudioMLBase": LabelStudioMLBase},
}
for name, content in CONTENT.items():
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(content)
