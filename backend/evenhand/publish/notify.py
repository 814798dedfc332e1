"""Alerts out: posts to one configured webhook when somebody is newly flagged or cleared, or a warning comes or goes.

Each fact is queued once under its own key and sent once; facts of one project that are due together share a message.
The body is Slack-compatible (`text`) with the facts as data beside it. With EVENHAND_ALERT_WEBHOOK_SECRET set, the
header X-Evenhand-Signature is `sha256=` and the HMAC-SHA256 of "<X-Evenhand-Timestamp>.<body>".
"""

import hashlib
import hmac
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests

from evenhand.domain import Project, Publication, shown_name
from evenhand.project_config import ProjectConfig
from evenhand.pseudonyms import PSEUDONYM_KEY, pseudonym
from evenhand.publish.digest import KIND as DIGEST
from evenhand.publish.digest import mail, queue_digest
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.store.messages import LONGEST_RETRY
from fdr_core.report.words import flag_words

CHANNEL = "notify"
LEASE = "notify"
LIVE = "live"
PAUSE_SECONDS = 10.0  # between two rounds of sending, over all processes
ROUND_SECONDS = 120.0
FACTS_PER_ROUND = 20
MAX_ATTEMPTS = 12
FIRST_RETRY_SECONDS = 30.0
TIMEOUT = (5.0, 10.0)
PROBLEM, MAIL_PROBLEM = "alert_webhook", "digest_mail"

Json = dict[str, Any]


@dataclass(frozen=True)
class SendReport:
    """Messages that went out and that failed, and facts newly queued."""

    queued: int = 0
    sent: int = 0
    failed: int = 0


def send_due(store: Store, settings: Settings, session: requests.Session, now: float) -> SendReport:
    """Queue what is new and send what is due; without an alert webhook and a digest nothing happens."""
    queued = queue_digest(store, settings, now)
    if settings.alert_webhook_url:
        queued += sum(
            _queue_news(store, project, now) for project in store.projects.all() if project.kind == "comparison"
        )
    if not store.notifications.due(limit=1):
        return SendReport(queued)
    # Every round has an owner of its own, so that the lease also spaces out the rounds of one process.
    lease = store.leases.acquire(LEASE, uuid.uuid4().hex, ROUND_SECONDS)
    if lease is None:
        return SendReport(queued)
    due: dict[int | str | None, list[Json]] = {}
    for row in store.notifications.due(limit=FACTS_PER_ROUND):
        due.setdefault(row["key"] if row["payload"]["kind"] == DIGEST else row["project_id"], []).append(row)
    outcomes = [_send(store, settings, session, rows, now) for rows in due.values()]
    store.leases.renew(lease, PAUSE_SECONDS)
    return SendReport(queued, sum(outcomes), len(outcomes) - sum(outcomes))


def _queue_news(store: Store, project: Project, now: float) -> int:
    """Compare flags and warnings with what was told before; each fact is queued before it is remembered."""
    config = ProjectConfig.model_validate(project.config)
    told = {key: record for (_, key), record in store.publications.get(project.id, CHANNEL).items()}
    flags = {f"flag:{flag['annotator_id']}": flag for flag in store.flags.all(project.id)}
    queued = 0
    for key, flag in flags.items():
        since = f"{float(flag['since']):.6f}"
        if key in told and told[key].content_hash == since:
            continue
        annotator = str(flag["annotator_id"])
        fact = _fact(store, project, config, "flagged", annotator, flag)
        queued += store.notifications.add(f"flagged:{project.id}:{annotator}:{since}", fact, project_id=project.id)
        _remember(store, project, key, since, now)
    for key, record in told.items():
        if key.startswith("flag:") and key not in flags:
            annotator = key.removeprefix("flag:")
            fact = _fact(store, project, config, "cleared", annotator, {})
            name = f"cleared:{project.id}:{annotator}:{record.content_hash}"
            queued += store.notifications.add(name, fact, project_id=project.id)
            store.publications.delete(project.id, CHANNEL, key)
    return queued + _queue_warnings(store, project, config, told, now)


def _queue_warnings(
    store: Store, project: Project, config: ProjectConfig, told: Mapping[str, Publication], now: float
) -> int:
    """A warning stays until an audit withdraws it; evidence is read only where it has moved or a run has ended."""
    latest = store.runs.latest(project.id)
    state = f"{project.live_seq}:{latest.id if latest else 0}"
    if LIVE in told and told[LIVE].content_hash == state:
        return 0
    queued = 0
    warned = store.live.warned(project.id)
    for annotator, evidence in warned.items():
        if f"warning:{annotator}" not in told:
            fact = _fact(store, project, config, "early warning", annotator, {})
            name = f"warning:{project.id}:{annotator}:{evidence.warned_at:.6f}"
            queued += store.notifications.add(name, fact, project_id=project.id)
            _remember(store, project, f"warning:{annotator}", f"{evidence.warned_at:.6f}", now)
    for key, record in told.items():
        annotator = key.removeprefix("warning:")
        if key.startswith("warning:") and annotator not in warned:
            fact = _fact(store, project, config, "warning withdrawn", annotator, {})
            name = f"withdrawn:{project.id}:{annotator}:{record.content_hash}"
            queued += store.notifications.add(name, fact, project_id=project.id)
            store.publications.delete(project.id, CHANNEL, key)
    _remember(store, project, LIVE, state, now)
    return queued


def _remember(store: Store, project: Project, key: str, content: str, now: float) -> None:
    store.publications.put(Publication(project.id, CHANNEL, key, content, None, "done", 0, None, None, now))


def _fact(
    store: Store, project: Project, config: ProjectConfig, kind: str, annotator: str, flag: Mapping[str, Any]
) -> Json:
    """One fact as data; with pseudonyms neither name nor id leaves the house."""
    if config.publish.pseudonyms:
        shown = name = pseudonym(store.secrets.get(PSEUDONYM_KEY), project.id, annotator)
    else:
        person = store.annotators.get(project.id, [annotator]).get(annotator)
        shown, name = annotator, shown_name(person, annotator)
    evidence = flag.get("evidence") or {}
    return {
        "kind": kind,
        "project": project.id,
        "title": project.title,
        "annotator": shown,
        "name": name,
        "finding": flag_words(flag) if kind == "flagged" else None,
        "bias": evidence.get("bias"),
        "comparisons": evidence.get("comparisons"),
    }


def _send(store: Store, settings: Settings, session: requests.Session, rows: Sequence[Json], now: float) -> bool:
    """Send one message for these facts and note of each what became of it."""
    payload = rows[0]["payload"]
    by_mail = payload["kind"] == DIGEST and payload["way"] == "mail"
    error = mail(settings, payload) if by_mail else _post(settings, session, rows, now)
    for row in rows:
        attempts = int(row["attempts"]) + 1
        wait = min(FIRST_RETRY_SECONDS * 2.0 ** (attempts - 1), LONGEST_RETRY)
        again = now + wait if error and attempts < MAX_ATTEMPTS else None
        store.notifications.settle(row["key"], error=error, next_try_at=again)
    problem, setting = (MAIL_PROBLEM, "EVENHAND_SMTP_URL") if by_mail else (PROBLEM, "EVENHAND_ALERT_WEBHOOK_URL")
    if error is None:
        store.problems.resolve(None, problem)
    else:
        store.problems.open(None, problem, error, f"Check {setting} and the service behind it.")
    return error is None


def _post(settings: Settings, session: requests.Session, rows: Sequence[Json], now: float) -> str | None:
    """Send to the chat; the error in words, or None."""
    if not settings.alert_webhook_url:
        return "no alert webhook is configured any more"
    body = json.dumps(_message(settings, [row["payload"] for row in rows]), ensure_ascii=False).encode()
    headers = {"Content-Type": "application/json; charset=utf-8", **_signature(settings, body, now)}
    try:
        answer = session.post(
            settings.alert_webhook_url, data=body, headers=headers, timeout=TIMEOUT, allow_redirects=False
        )
    except requests.RequestException as failure:
        return f"the alert webhook could not be reached ({type(failure).__name__})"
    return None if 200 <= answer.status_code < 300 else f"the alert webhook answered {answer.status_code}"


def _signature(settings: Settings, body: bytes, now: float) -> dict[str, str]:
    if not settings.alert_webhook_secret:
        return {}
    stamp = str(int(now))
    digest = hmac.new(settings.alert_webhook_secret.encode(), stamp.encode() + b"." + body, hashlib.sha256)
    return {"X-Evenhand-Timestamp": stamp, "X-Evenhand-Signature": f"sha256={digest.hexdigest()}"}


def _message(settings: Settings, facts: Sequence[Json]) -> Json:
    """Text for people, facts for programs."""
    if facts[0]["kind"] == DIGEST:
        return {"text": _escape(str(facts[0]["text"])), "facts": []}
    project, title = facts[0]["project"], _escape(str(facts[0]["title"]))
    lines = [f"*Evenhand*, project {title}:", *(f"• {_sentence(fact)}" for fact in facts)]
    if settings.public_url:
        lines.append(f"{settings.public_url}/ui/projects/{project}")
    return {"text": "\n".join(lines), "facts": list(facts)}


def _sentence(fact: Json) -> str:
    """One fact in calm words, about answers and not about persons."""
    name = _escape(str(fact["name"]))
    if fact["kind"] == "flagged":
        figures = [f"{fact['comparisons']} answers"] if fact["comparisons"] else []
        if isinstance(fact["bias"], int | float):
            figures.append(f"lean {abs(fact['bias']):.2f} to the {'left' if fact['bias'] > 0 else 'right'}")
        return f"answers of {name}: {fact['finding']}" + (f" ({', '.join(figures)})" if figures else "")
    if fact["kind"] == "cleared":
        return f"answers of {name}: no longer on the list"
    if fact["kind"] == "warning withdrawn":
        return f"answers of {name}: the early warning is withdrawn, since the sides cannot be trusted"
    return f"answers of {name}: early warning of a lean to one side"


def _escape(text: str) -> str:
    """Slack's three control characters as entities, so that a name cannot become a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
