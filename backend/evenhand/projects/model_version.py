"""The version of a project's results, as Label Studio knows it."""

from evenhand.store import Store

NO_VERSION = "evenhand-0"


def current_version(store: Store, project_id: int) -> str:
    """The model version /setup and /predict answer with: the published one, else that of the latest finished run.

    Label Studio asks again for tasks without a prediction of this version, so it must be the one we published.
    """
    published = store.publications.get(project_id, "predictions").get(("predictions", "version"))
    if published is not None and published.remote_id:
        return published.remote_id
    run = store.runs.latest(project_id)
    return run.model_version or NO_VERSION if run else NO_VERSION
