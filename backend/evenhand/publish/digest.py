"""A week in a few lines, by mail and to the chat: off unless EVENHAND_DIGEST says weekly.

What is written is queued once a week, as alerts are, and sent by the same rounds: each way once, patient with a server
that is away.
"""

import smtplib
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Any
from urllib.parse import unquote, urlsplit

from evenhand.domain import Project, shown_name
from evenhand.project_config import ProjectConfig
from evenhand.pseudonyms import PSEUDONYM_KEY, pseudonym
from evenhand.settings import Settings, is_loopback
from evenhand.store import Store
from fdr_core.report.words import flag_words, plural, when
from fdr_core.terminal import printable

KIND = "digest"
#: Weeks begin on Monday; what is written goes out from this hour on, in UTC.
FIRST_HOUR = 6
TIMEOUT_SECONDS = 20.0
MOST_NAMES = 20


def queue_digest(store: Store, settings: Settings, now: float) -> int:
    """Queue this week's lines, once for each way that is configured; how many are new."""
    ways = [way for way, is_on in (("mail", settings.mails), ("chat", bool(settings.alert_webhook_url))) if is_on]
    today = datetime.fromtimestamp(now, UTC)
    week = "{}-W{:02}".format(*today.isocalendar()[:2])
    signed = store.leases.signs().get(KIND)
    if not settings.digest or not ways or (today.weekday() == 0 and today.hour < FIRST_HOUR):
        return 0
    if signed is not None and signed[0] == week:
        return 0
    payload = {"kind": KIND, "week": week, "text": digest(store, settings, now)}
    queued = sum(store.notifications.add(f"{KIND}:{week}:{way}", {**payload, "way": way}) for way in ways)
    store.leases.sign(KIND, week)
    return queued


def digest(store: Store, settings: Settings, now: float) -> str:
    """What a lead wants to know on a Monday: project by project, then what needs attention."""
    lines = [f"Evenhand, week to {datetime.fromtimestamp(now, UTC):%Y-%m-%d}"]
    projects = [project for project in store.projects.all() if project.kind == "comparison"]
    for project in projects:
        lines += ["", *_of_project(store, settings, project)]
    problems = store.problems.find()
    if problems:
        lines += ["", f"Open problems: {len(problems)}"]
        lines += [f"- {printable(problem.message)}\n  {problem.remedy}" for problem in problems[:MOST_NAMES]]
    return "\n".join(lines if projects else [*lines, "", "No project is connected."])


def _of_project(store: Store, settings: Settings, project: Project) -> list[str]:
    flags = store.flags.all(project.id)
    decided = store.decisions.current(project.id)
    config = ProjectConfig.model_validate(project.config)
    waiting = [flag for flag in flags if str(flag["annotator_id"]) not in decided]
    run = store.runs.latest(project.id)
    finished = when(run.finished_at) if run else "never"
    lines = [
        printable(project.title),
        f"  {plural(project.counts.get('judged', 0), 'answer')} judged; last run: {finished}",
        f"  {plural(len(flags), 'lasting flag')}, {len(waiting)} to review; "
        f"{plural(len(store.live.warned(project.id)), 'early warning')}",
    ]
    people = store.annotators.get(project.id, [str(flag["annotator_id"]) for flag in waiting[:MOST_NAMES]])
    for flag in waiting[:MOST_NAMES]:
        lines.append(
            f"  - {printable(_name(store, config, project, str(flag['annotator_id']), people))}: {flag_words(flag)}"
        )
    if settings.public_url:
        lines.append(f"  {settings.public_url}/ui/projects/{project.id}")
    return lines


def _name(store: Store, config: ProjectConfig, project: Project, annotator: str, people: Mapping[str, Any]) -> str:
    """A name, or with pseudonyms neither name nor id."""
    if config.publish.pseudonyms:
        return pseudonym(store.secrets.get(PSEUDONYM_KEY), project.id, annotator)
    return shown_name(people.get(annotator), annotator)


def mail(settings: Settings, payload: Mapping[str, Any]) -> str | None:
    """Send the lines by mail; the error in words, without address or password, or None."""
    message = EmailMessage()
    message["Subject"] = f"Evenhand: week {payload['week']}"
    message["From"], message["To"] = settings.digest_from, settings.digest_to
    message["Date"], message["Message-ID"] = formatdate(), make_msgid(domain="evenhand")
    message.set_content(str(payload["text"]))
    try:
        _deliver(settings.smtp_url, message)
    except smtplib.SMTPResponseException as error:
        return f"the mail server answered {error.smtp_code}"
    except (smtplib.SMTPException, OSError) as error:
        return f"the mail server could not be used ({type(error).__name__})"
    return None


def _deliver(url: str, message: EmailMessage) -> None:
    """Hand a message to the server; a password leaves this machine encrypted or not at all."""
    parts = urlsplit(url)
    host, context = parts.hostname or "", ssl.create_default_context()
    if parts.scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, parts.port or 465, timeout=TIMEOUT_SECONDS, context=context)
    else:
        server = smtplib.SMTP(host, parts.port or 587, timeout=TIMEOUT_SECONDS)
    with server:
        server.ehlo()
        if parts.scheme == "smtp" and server.has_extn("starttls"):
            server.starttls(context=context)
            server.ehlo()
        elif parts.scheme == "smtp" and parts.password and not is_loopback(host):
            raise smtplib.SMTPNotSupportedError("the server offers no STARTTLS")
        if parts.username and parts.password:
            server.login(unquote(parts.username), unquote(parts.password))
        server.send_message(message)
