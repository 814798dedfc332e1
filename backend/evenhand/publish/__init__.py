"""Publishing to Label Studio: predictions, Data Manager tabs, and the alerts project; only differences are written.

Every channel compares what Label Studio holds with what it should hold, so that a call killed at any point is
completed by the next one. `publications` remembers what was intended, what was done, and when to try again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from evenhand.domain import Project
from evenhand.label_studio.client import LabelStudioClient
from evenhand.label_studio.transport import LabelStudioError
from evenhand.project_config import ProjectConfig
from evenhand.publish import alerts, follow_up, predictions
from evenhand.publish import tabs as tab
from evenhand.publish.context import Context
from evenhand.settings import Settings
from evenhand.store import Store

__all__ = ["PublishReport", "publish_project"]

CHANNELS = {
    predictions.CHANNEL: predictions.publish_predictions,
    tab.CHANNEL: tab.publish_tab,
    alerts.CHANNEL: alerts.publish_alerts,
    follow_up.CHANNEL: follow_up.publish_follow_ups,
}


@dataclass(frozen=True)
class PublishReport:
    """What was written, by kind, and which channels wait for their next try."""

    written: Mapping[str, int]
    waiting: tuple[str, ...] = ()


def publish_project(
    store: Store, client: LabelStudioClient, project: Project, *, now: float, settings: Settings | None = None
) -> PublishReport:
    """Bring Label Studio to what the latest run and the lasting flags say; safe to call again at any time.

    A channel that failed is tried again after a growing pause; the others are not held up by it. With `settings`,
    cards link to the dashboard and the alerts project's events are sent to this service.
    """
    if project.kind != "comparison":
        return PublishReport({})
    project = store.projects.get(project.id)
    config = ProjectConfig.model_validate(project.config)
    context = Context(store, client, project, config, store.runs.latest(project.id), now, settings)
    failure: LabelStudioError | None = None
    for channel, publish in CHANNELS.items():
        if context.is_waiting(channel):
            context.waiting.append(channel)
            continue
        try:
            publish(context)
        except LabelStudioError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return PublishReport(context.counts, tuple(context.waiting))
