"""Checks the connection with Label Studio step by step, and names the fix for whatever is wrong."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from evenhand.administer.connect import BACKEND_FIX, WEBHOOK_FIX
from evenhand.domain import Project
from evenhand.errors import BackendError, StoreError
from evenhand.label_studio.client import LabelStudioClient, service_url
from evenhand.label_studio.payloads import TRAINING
from evenhand.label_studio.transport import (
    LabelStudioError,
    LabelStudioForbiddenError,
    LabelStudioTokenError,
    TokenKind,
    knock,
)
from evenhand.settings import PROBE_HEADER, SECRET_HEADER, Settings, is_loopback
from evenhand.store import Store
from evenhand.store.database import LITTLE_SPACE_BYTES
from evenhand.store.runs import moves

SKEW_SECONDS = 60.0
#: Releases of Label Studio that the loop is tried with, the oldest and the newest.
SUPPORTED = ("1.21", "1.23")


@dataclass(frozen=True)
class Check:
    """One check: what was looked at, whether it is well, what was seen, and what to do if it is not."""

    check: str
    ok: bool
    seen: str
    fix: str = ""


def examine(settings: Settings, store: Store, client: LabelStudioClient | None) -> list[Check]:
    """All checks, in the order in which problems should be solved; nothing is changed anywhere."""
    checks = [_database(store), *_kept(store), _own_address(settings), _webhook_secret(settings)]
    if client is None:
        return [*checks, _not_configured(settings)]
    client = client.hurried()
    reached = _label_studio(client)
    checks += reached
    if not all(check.ok for check in reached):
        return checks
    checks.append(_clock(client))
    projects = [project for project in _projects(store) if project.ls_url == client.url]
    checks += _blocked_addresses(client, settings, projects)
    for project in projects:
        checks += (
            _asked(client, project) if project.config.get("pull_only") else _project(client, settings, store, project)
        )
        checks += _problems(store, project)
    checks += [_start_training(settings, projects[0])] if projects else []
    checks.append(_rejected_events(store))
    return checks


def _projects(store: Store) -> list[Project]:
    try:
        return [project for project in store.projects.all() if project.kind == "comparison"]
    except StoreError:
        return []  # the database's own check says so


def _database(store: Store) -> Check:
    try:
        skew = abs(store.database.time() - time.time())
    except StoreError as error:
        return Check("database", False, str(error), "check DATABASE_URL or MODEL_DIR, the server, and the disk")
    if skew > SKEW_SECONDS:
        return Check("database", False, f"its clock is {skew:.0f} s off", "set both machines' clocks by NTP")
    return Check("database", True, f"answers ({store.database.name})")


def _kept(store: Store) -> Iterator[Check]:
    """Whether all that is stored is whole, every project's log is sealed, and somebody works on it."""
    try:
        damage = store.database.damage(full=True)
        torn = [project.id for project in store.projects.all() if not store.decisions.verify(project.id).intact]
        signs = store.leases.signs()
    except StoreError as error:
        yield Check("integrity", False, str(error), "check the database")
        return
    restore = "stop the service, keep the file, and restore a backup with `evenhand restore`"
    yield Check("integrity", damage is None, damage or "every row can be read", restore if damage else "")
    if torn:
        seen = f"the log of project {', '.join(map(str, torn))} was changed after it was written"
        yield Check("log", False, seen, "compare it with a backup's: somebody wrote into the database")
    space = store.database.free_bytes()
    if space is not None:
        is_enough = space >= LITTLE_SPACE_BYTES
        fix = "" if is_enough else "make room where the database lies, before events are refused"
        yield Check("space", is_enough, f"{space / 1e9:.1f} GB free", fix)
    seen = "moved within a minute" if moves(signs) else "gave no sign of life for a minute"
    yield Check("worker", moves(signs), seen, "" if moves(signs) else "start `evenhand serve` or `evenhand worker`")


def _own_address(settings: Settings) -> Check:
    url = service_url(settings)
    if settings.backend_url or settings.public_url:
        return Check("our address", True, url)
    fix = "set EVENHAND_PUBLIC_URL to the address at which Label Studio and people reach this service"
    ok = is_loopback(settings.host)
    return Check("our address", ok, f"{url}, taken from HOST and PORT", "" if ok else fix)


def _webhook_secret(settings: Settings) -> Check:
    if settings.webhook_secret:
        return Check("webhook secret", True, "set")
    protected = settings.has_credentials or not is_loopback(settings.host)
    fix = "set EVENHAND_WEBHOOK_SECRET and run `evenhand connect` again: events carry no password of their own"
    return Check("webhook secret", not protected, "not set", fix if protected else "")


def _not_configured(settings: Settings) -> Check:
    missing = "LABEL_STUDIO_URL" if not settings.label_studio_url else "LABEL_STUDIO_API_KEY"
    fix = f"set {missing}" + (
        " to Label Studio's address"
        if missing == "LABEL_STUDIO_URL"
        else " to a personal access token (Account & Settings)"
    )
    return Check("Label Studio", False, f"{missing} is not set; events are taken, pulls are not possible", fix)


def _label_studio(client: LabelStudioClient) -> list[Check]:
    """Whether the address answers, and whether the token is taken."""
    try:
        user = client.who_am_i()
        version = client.version()
    except LabelStudioTokenError as error:
        reached = Check("Label Studio", True, f"answers at {client.url}")
        return [reached, Check("token", False, str(error), error.remedy)]
    except LabelStudioError as error:
        return [Check("Label Studio", False, str(error), error.remedy)]
    kind = "a personal access token" if client.token_kind is TokenKind.PERSONAL else "a legacy token"
    return [
        Check("Label Studio", True, f"version {version} at {client.url}; {_range_words(version)}"),
        Check("token", True, f"{kind} of {user.get('email') or user.get('id')}"),
    ]


def _range_words(version: str) -> str:
    """Whether this release is one of those that are tried."""
    low, high = SUPPORTED
    numbers = [tuple(int(part) for part in re.findall(r"\d+", text)[:2]) for text in (low, version, high)]
    known = "" if numbers[0] <= numbers[1] <= numbers[2] else "this one is not among them; "
    return f"{known}tried are {low} to {high}"


def _clock(client: LabelStudioClient) -> Check:
    if client.server_time is None:
        return Check("clock", True, "Label Studio does not tell its time")
    skew = client.server_time.timestamp() - time.time()
    fix = "set both machines' clocks by NTP; events are ordered by Label Studio's times"
    ok = abs(skew) <= SKEW_SECONDS
    return Check("clock", ok, f"Label Studio's clock differs by {abs(skew):.0f} s", "" if ok else fix)


def _blocked_addresses(client: LabelStudioClient, settings: Settings, projects: list[Project]) -> Iterator[Check]:
    """Whether each of Label Studio's two address filters lets ours through."""
    if not projects:
        yield Check("projects", False, "none is connected", "run `evenhand connect PROJECT` with the project's id")
        return
    url, ls_project = service_url(settings), projects[0].ls_project_id
    probes: tuple[tuple[str, Callable[[], None], str], ...] = (
        ("ML_BLOCK_LOCAL_IP", partial(client.probe_backend_url, ls_project, url), BACKEND_FIX),
        ("SSRF_PROTECTION_ENABLED", partial(client.probe_webhook_url, ls_project, url + "/webhook"), WEBHOOK_FIX),
    )
    for setting, probe, fix in probes:
        try:
            probe()
        except LabelStudioForbiddenError as error:
            yield Check(setting, False, str(error), fix)
        except LabelStudioError as error:
            yield Check(setting, False, f"could not be tried: {error}", error.remedy)
        else:
            yield Check(setting, True, f"does not stop {url}")


def _project(client: LabelStudioClient, settings: Settings, store: Store, project: Project) -> Iterator[Check]:
    name = f"project {project.ls_project_id}"
    again = f"run `evenhand connect {project.ls_project_id}`"
    url = service_url(settings)
    try:
        backends = client.ml_backends(project.ls_project_id)
        hooks = client.webhooks(project.ls_project_id)
    except LabelStudioError as error:
        yield Check(name, False, str(error), error.remedy)
        return
    ours = [entry for entry in backends if str(entry.get("url")).rstrip("/") == url]
    if not ours:
        others = ", ".join(str(entry.get("url")) for entry in backends) or "none"
        fix = f"{again}, or, if one of them is this service, set EVENHAND_PUBLIC_URL to its address"
        yield Check(f"{name}: ML backend", False, f"{url} is not among its ML backends ({others})", fix)
    elif ours[0].get("state") not in ("CO", None):
        seen = f"Label Studio says {ours[0].get('readable_state') or ours[0].get('state')}"
        yield Check(f"{name}: ML backend", False, seen, f"check that `evenhand serve` runs and answers at {url}")
    else:
        yield Check(f"{name}: ML backend", True, f"{url} is connected")
    yield _webhook(name, again, settings, [hook for hook in hooks if str(hook.get("url")) == url + "/webhook"])
    yield _events(name, store, project)


def _asked(client: LabelStudioClient, project: Project) -> Iterator[Check]:
    """Of a project that is only pulled: whether it can be read."""
    name = f"project {project.ls_project_id}"
    try:
        client.project(project.ls_project_id)
    except LabelStudioError as error:
        yield Check(name, False, str(error), error.remedy)
    else:
        yield Check(f"{name}: pull only", True, "can be read; Label Studio is not asked to call us")


def _problems(store: Store, project: Project) -> Iterator[Check]:
    """What is wrong with a project besides its connection, as the pages and `evenhand status` say it."""
    for problem in store.problems.find(project.id):
        yield Check(f"project {project.ls_project_id}: {problem.code}", False, problem.message, problem.remedy)


def _webhook(name: str, again: str, settings: Settings, hooks: list[dict[str, object]]) -> Check:
    check = f"{name}: webhook"
    if not hooks:
        return Check(check, False, "events are not sent here: no webhook points at us", f"{again}; {WEBHOOK_FIX}")
    if not any(hook.get("is_active") is not False for hook in hooks):
        return Check(check, False, "the webhook is switched off", again)
    if len(hooks) > 1:
        return Check(check, True, f"{len(hooks)} webhooks point at us; duplicates are harmless")
    headers = hooks[0].get("headers")
    sent = headers.get(SECRET_HEADER) if isinstance(headers, dict) else None
    if settings.webhook_secret and sent != settings.webhook_secret:
        seen = "it carries another secret than ours" if sent else "it carries no secret, so its events are rejected"
        return Check(check, False, seen, again)
    return Check(check, True, "present" + (", with the secret" if sent else ""))


def _events(name: str, store: Store, project: Project) -> Check:
    """Whether events arrive: a pull that keeps finding new answers means that they do not."""
    check = f"{name}: events"
    last_pull = project.last_pull or {}
    lost = 0 if last_pull.get("is_first") else int(last_pull.get("repaired") or 0)
    if project.last_event_at is None:
        if lost:
            return Check(check, False, f"none arrived, while the last pull found {lost} changes", WEBHOOK_FIX)
        return Check(check, True, "none yet")
    age = max(0.0, store.clock() - project.last_event_at)
    return Check(check, True, f"the last one arrived {age:.0f} s ago; the last pull repaired {lost}")


def _start_training(settings: Settings, project: Project) -> Check:
    """Whether "Start Training" gets through: sent as Label Studio sends it, marked so that nothing is started."""
    check, url = "start training", service_url(settings) + "/webhook"
    auth = (settings.basic_auth_user, settings.basic_auth_pass) if settings.basic_auth_user else None
    body = {"action": TRAINING, "project": {"id": project.ls_project_id}}
    status = knock(url, body, auth=auth, headers={PROBE_HEADER: "1"})
    if status is None:
        return Check(check, False, f"{url} does not answer", "start `evenhand serve`")
    if status == 200:
        return Check(check, True, "gets through and asks for a run")
    fix = (
        "set BASIC_AUTH_USER and BASIC_AUTH_PASS and run `evenhand connect` again: Label Studio sends the secret "
        "with answers only"
    )
    return Check(check, False, f"it is refused with {status}", fix)


def _rejected_events(store: Store) -> Check:
    try:
        counts = store.events.counts()
    except BackendError as error:
        return Check("rejected events", False, str(error), "check the database")
    rejected = [row for row in counts if row["outcome"] == "unauthorized"]
    accepted = max((float(row["last_at"]) for row in counts if row["outcome"] == "accepted"), default=0.0)
    number = sum(int(row["count"]) for row in rejected)
    if all(float(row["last_at"]) <= accepted for row in rejected):
        return Check(
            "rejected events", True, f"{number} in all, none since the last accepted one" if number else "none"
        )
    fix = "run `evenhand connect` for the project, which installs the secret into its webhook"
    return Check("rejected events", False, f"{number} came without the right secret", fix)
