"""Opening the service as the environment describes it."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from requests import Session

from evenhand.errors import NotFoundError, SettingsError
from evenhand.label_studio.client import LabelStudioClient, client_from_settings
from evenhand.settings import Settings
from evenhand.store import Store, open_store


@dataclass(frozen=True)
class Service:
    """The settings, the store and the client the environment describes."""

    settings: Settings
    store: Store
    client: LabelStudioClient | None

    def need_client(self) -> LabelStudioClient:
        """The client, or an error that names what is missing."""
        if self.client is None:
            missing = "LABEL_STUDIO_URL" if not self.settings.label_studio_url else "LABEL_STUDIO_API_KEY"
            raise SettingsError(f"{missing} is not set; this command talks to Label Studio and needs it")
        return self.client


def refuse_without_data(settings: Settings) -> None:
    """Say where data was looked for and that there is none, rather than make an empty database."""
    if not settings.database_url.startswith("sqlite:///"):
        return
    path = Path(settings.database_url.removeprefix("sqlite:///"))
    if not path.exists():
        raise NotFoundError(
            f"there is no data here: {path} does not exist; `evenhand serve` creates it, and MODEL_DIR or "
            "DATABASE_URL names another place"
        )


@contextmanager
def open_data() -> Iterator[tuple[Settings, Store]]:
    """The settings and the store that they name, which must be there already."""
    settings = Settings.from_env(os.environ)
    refuse_without_data(settings)
    with closing(open_store(settings)) as store:
        yield settings, store


@contextmanager
def open_service(*, creates: bool = True) -> Iterator[Service]:
    """Open store and client as the environment says; a command that only reads does not create a database."""
    settings = Settings.from_env(os.environ)
    if not creates:
        refuse_without_data(settings)
    store = open_store(settings)
    settings = replace(settings, webhook_secret=store.secrets.webhook(settings.webhook_secret))
    with Session() as session:
        try:
            yield Service(settings, store, client_from_settings(settings, session))
        finally:
            store.close()
