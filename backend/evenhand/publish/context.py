"""What every channel of publishing needs, and how its state is remembered."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from evenhand.domain import Project, Publication, Run
from evenhand.label_studio.client import LabelStudioClient
from evenhand.label_studio.transport import LabelStudioError
from evenhand.project_config import ProjectConfig
from evenhand.settings import Settings
from evenhand.store import Store

FIRST_RETRY_SECONDS = 30.0
LONGEST_RETRY_SECONDS = 3600.0
STATE = "state"


@dataclass(frozen=True)
class Context:
    """One call of publish_project."""

    store: Store
    client: LabelStudioClient
    project: Project
    config: ProjectConfig
    run: Run | None
    now: float
    settings: Settings | None
    counts: dict[str, int] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def count(self, name: str, number: int = 1) -> None:
        """Add to the report."""
        if number:
            self.counts[name] = self.counts.get(name, 0) + number

    def recall(self, channel: str, key: str = STATE) -> Publication:
        """What is remembered under a key, or a blank record."""
        known = self.store.publications.get(self.project.id, channel).get((channel, key))
        return known or Publication(self.project.id, channel, key, None, None, "new", 0, None, None, self.now)

    def remember(self, channel: str, key: str = STATE, **changes: Any) -> None:
        """Change what is remembered under a key."""
        record = replace(self.recall(channel, key), updated_at=self.now, **changes)
        self.store.publications.put(record)

    def forget(self, channel: str, *keys: str) -> None:
        """Forget what was withdrawn."""
        for key in keys:
            self.store.publications.delete(self.project.id, channel, key)

    def is_done(self, channel: str, content_hash: str) -> bool:
        """Whether exactly this content was published completely."""
        record = self.recall(channel)
        return record.state == "done" and record.content_hash == content_hash

    def is_waiting(self, channel: str) -> bool:
        """Whether the channel must wait for its next try; not if the clock was set back."""
        record = self.recall(channel)
        return record.next_try_at is not None and self.now < record.next_try_at <= self.now + _pause(record.attempts)

    @contextmanager
    def attempt(self, channel: str, content_hash: str) -> Iterator[None]:
        """Mark the channel as being written; done at the end, or failed with the time of the next try."""
        self.remember(channel, state="pending", content_hash=content_hash)
        with self.failures_of(channel):
            yield
        self.remember(channel, state="done", attempts=0, next_try_at=None, last_error=None)

    @contextmanager
    def failures_of(self, channel: str) -> Iterator[None]:
        """Mark the channel as failed, with the time of the next try, if Label Studio fails it; others go on."""
        try:
            yield
        except LabelStudioError as error:
            attempts = self.recall(channel).attempts + 1
            self.remember(
                channel,
                state="failed",
                attempts=min(attempts, 20),
                next_try_at=self.now + _pause(attempts),
                last_error=str(error)[:500],
            )
            raise


def _pause(attempts: int) -> float:
    """Seconds to wait after so many failed attempts."""
    return min(FIRST_RETRY_SECONDS * 2.0 ** (attempts - 1), LONGEST_RETRY_SECONDS)


def content_hash(content: Any) -> str:
    """A short fingerprint of anything JSON can hold."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
