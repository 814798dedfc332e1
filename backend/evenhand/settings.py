"""Every setting of the service, declared once and read once from the environment."""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evenhand.domain import ROLES, Role
from evenhand.errors import SettingsError

#: The header in which annotation events carry the webhook secret.
SECRET_HEADER = "X-Evenhand-Secret"  # noqa: S105 - the header's name
#: The header of `evenhand doctor`: an event that carries it is checked and answered, and nothing is done.
PROBE_HEADER = "X-Evenhand-Probe"


@dataclass(frozen=True)
class Setting:
    """One environment variable: its name, default and meaning."""

    name: str
    default: str
    help: str
    secret: bool = False
    older_name: str | None = None


def _setting(
    name: str,
    default: str,
    help: str,
    read: Callable[[str, str], Any] = lambda name, text: text,
    *,
    secret: bool = False,
    older_name: str | None = None,
) -> Any:
    """A field of Settings: the variable it is read from, and how."""
    known = {"setting": Setting(name, default, help, secret, older_name), "read": read}
    return field(default=read(name, default), repr=not secret, metadata=known)


LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def _url(name: str, text: str, *, is_secret: bool = False) -> str:
    """An http(s) address without trailing slash, or ''."""
    text = text.rstrip("/")
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.username or parts.password:
        shown = "no address" if is_secret else repr(text)
        raise SettingsError(f"{name} is {shown}; expected http://host[:port] or https://…, without user or password")
    return text


def _database_url(name: str, text: str) -> str:
    """The SQLAlchemy address; plain postgres addresses get the driver we ship."""
    for prefix in ("postgres://", "postgresql://"):
        if text.startswith(prefix):
            return "postgresql+psycopg://" + text[len(prefix) :]
    if not text or text.startswith(("postgresql+psycopg://", "sqlite:///")):
        return text
    raise SettingsError(
        f"{name} starts with {text.split(':')[0]!r}; expected postgresql://user:password@host/name or sqlite:///file"
    )


def _weekly(name: str, text: str) -> bool:
    """Whether it is asked for every week."""
    if text.lower() not in ("", "off", "weekly"):
        raise SettingsError(f"{name} is {text!r}; expected weekly, or nothing")
    return text.lower() == "weekly"


def _addresses(name: str, text: str) -> str:
    """Mail addresses, by commas."""
    found = [address.strip() for address in text.split(",") if address.strip()]
    wrong = next((one for one in found if not one.isprintable() or " " in one or one.count("@") != 1), None)
    if wrong is not None:
        raise SettingsError(f"{name} has {wrong!r}; expected mail addresses such as ana@example.com, by commas")
    return ",".join(found)


def _smtp_url(name: str, text: str) -> str:
    """The address of a mail server; what is wrong with it is said without it, since it may hold a password."""
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("smtp", "smtps") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if text and not valid:
        raise SettingsError(f"{name} is no address; expected smtp://user:password@host:587 or smtps://…")
    return text


def _log_level(name: str, text: str) -> str:
    """A level name in capitals."""
    if text.upper() not in LOG_LEVELS:
        raise SettingsError(f"{name} is {text!r}; expected one of {', '.join(LOG_LEVELS)}")
    return text.upper()


def _role(name: str, text: str) -> Role:
    """A role by its name."""
    found = next((role for role in ROLES if role == text.lower()), None)
    if found is None:
        raise SettingsError(f"{name} is {text!r}; expected one of {', '.join(ROLES)}")
    return found


def _number(low: float, high: float, *, whole: bool = False) -> Callable[[str, str], Any]:
    """Reads a number within bounds."""

    def read(name: str, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not low <= number <= high:
            raise SettingsError(f"{name} is {text!r}; expected a number from {low:g} to {high:g}")
        if whole and number != int(number):
            raise SettingsError(f"{name} is {text!r}; expected a whole number")
        return int(number) if whole else number

    return read


@dataclass(frozen=True)
class Settings:
    """The service's settings, each with its variable, default, meaning and reader; secrets are left out of its repr."""

    label_studio_url: str = _setting(
        "LABEL_STUDIO_URL",
        "",
        "Address of Label Studio as this service reaches it; the only host it ever calls, beside chat and mail server.",
        _url,
        older_name="LABEL_STUDIO_HOST",
    )
    label_studio_api_key: str = _setting(
        "LABEL_STUDIO_API_KEY",
        "",
        "Personal access token or legacy token of a Label Studio user who may read and publish.",
        secret=True,
    )
    basic_auth_user: str = _setting("BASIC_AUTH_USER", "", "User name Label Studio sends with each call.")
    basic_auth_pass: str = _setting("BASIC_AUTH_PASS", "", "Password of BASIC_AUTH_USER.", secret=True)
    basic_auth_role: Role = _setting(  # noqa: RUF009 - makes a field
        "BASIC_AUTH_ROLE",
        "protocol",
        "What BASIC_AUTH_USER may do: protocol (Label Studio's calls only), reader, reviewer or owner.",
        _role,
    )
    webhook_secret: str = _setting(
        "EVENHAND_WEBHOOK_SECRET",
        "",
        f"Value of the header {SECRET_HEADER} that annotation events carry; `evenhand connect` installs it.",
        secret=True,
    )
    label_studio_public_url: str = _setting(
        "LABEL_STUDIO_PUBLIC_URL", "", "Address of Label Studio as people reach it; empty: LABEL_STUDIO_URL.", _url
    )
    public_url: str = _setting(
        "EVENHAND_PUBLIC_URL", "", "Address at which Label Studio and people reach this service.", _url
    )
    backend_url: str = _setting(
        "EVENHAND_BACKEND_URL",
        "",
        "Address at which Label Studio reaches this service, where it differs from EVENHAND_PUBLIC_URL.",
        _url,
    )
    alert_webhook_url: str = _setting(
        "EVENHAND_ALERT_WEBHOOK_URL",
        "",
        "Where alerts are posted (Slack-compatible JSON); empty: nowhere.",
        partial(_url, is_secret=True),
        secret=True,
    )
    alert_webhook_secret: str = _setting(
        "EVENHAND_ALERT_WEBHOOK_SECRET", "", "Key of the signature in the header X-Evenhand-Signature.", secret=True
    )
    digest: bool = _setting(
        "EVENHAND_DIGEST", "", "weekly: every Monday a few lines on all projects, by mail and to the chat.", _weekly
    )
    digest_to: str = _setting(
        "EVENHAND_DIGEST_TO", "", "Mail addresses that get them, by commas; empty: no mail.", _addresses
    )
    digest_from: str = _setting(
        "EVENHAND_DIGEST_FROM", "", "Mail address they come from; empty: the first of EVENHAND_DIGEST_TO.", _addresses
    )
    smtp_url: str = _setting(
        "EVENHAND_SMTP_URL",
        "",
        "Mail server: smtp://user:password@host:587 (STARTTLS where offered) or smtps://….",
        _smtp_url,
        secret=True,
    )
    secret_key: str = _setting(
        "EVENHAND_SECRET_KEY",
        "",
        "Key that signs dashboard sessions; empty: made once, kept in a file beside SQLite, else in the database.",
        secret=True,
    )
    database_url: str = _setting(
        "DATABASE_URL",
        "",
        "postgresql://… or sqlite:///…; empty: the file evenhand.db in MODEL_DIR.",
        _database_url,
        secret=True,
    )
    model_dir: Path = _setting(  # noqa: RUF009 - makes a field
        "MODEL_DIR",
        "data",
        "Folder for the SQLite database and cached statistics.",
        lambda name, text: Path(text).expanduser(),
    )
    log_level: str = _setting("LOG_LEVEL", "INFO", "DEBUG, INFO, WARNING or ERROR.", _log_level)
    workers: int = _setting("WORKERS", "1", "Web processes.", _number(1, 64, whole=True))
    threads: int = _setting("THREADS", "8", "Threads per web process.", _number(1, 256, whole=True))
    host: str = _setting("HOST", "127.0.0.1", "Address to listen on; beyond loopback only with credentials.")
    port: int = _setting("PORT", "9090", "Port to listen on.", _number(0, 65535, whole=True))
    reconcile_minutes: float = _setting(
        "EVENHAND_RECONCILE_MINUTES",
        "15",
        "Minutes between pulls that heal what events lost; 0: only at start and when Label Studio comes back.",
        _number(0.0, 1e6),
    )
    max_waiting: int = _setting(
        "EVENHAND_MAX_WAITING",
        "64",
        "Requests under way per web process beyond which events are refused with 503; the next pull brings them.",
        _number(1, 1000, whole=True),
    )
    max_body_mb: float = _setting(
        "EVENHAND_MAX_BODY_MB", "10", "Largest request body accepted, in megabytes.", _number(0.001, 1024.0)
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "Settings":
        """Read and validate all settings; a bad value raises SettingsError with the variable's name."""
        value: dict[str, Any] = {}
        for one in fields(cls):
            setting = one.metadata["setting"]
            value[one.name] = one.metadata["read"](setting.name, lookup(setting, environ))
        if bool(value["basic_auth_user"]) != bool(value["basic_auth_pass"]):
            missing = "BASIC_AUTH_PASS" if value["basic_auth_user"] else "BASIC_AUTH_USER"
            raise SettingsError(f"{missing} is empty while its partner is set; set both or neither")
        if value["digest_to"] and not value["smtp_url"]:
            raise SettingsError("EVENHAND_SMTP_URL is empty while EVENHAND_DIGEST_TO is set; name the mail server")
        if value["digest"] and not (value["digest_to"] or value["alert_webhook_url"]):
            raise SettingsError("EVENHAND_DIGEST has no way out; set EVENHAND_DIGEST_TO or EVENHAND_ALERT_WEBHOOK_URL")
        value["digest_from"] = value["digest_from"] or value["digest_to"].partition(",")[0]
        value["label_studio_public_url"] = value["label_studio_public_url"] or value["label_studio_url"]
        value["backend_url"] = value["backend_url"] or value["public_url"]
        value["database_url"] = value["database_url"] or f"sqlite:///{value['model_dir'] / 'evenhand.db'}"
        return cls(**value)

    @property
    def mails(self) -> bool:
        """Whether there is a mail server and somebody to write to."""
        return bool(self.smtp_url and self.digest_to)

    @property
    def has_credentials(self) -> bool:
        """Whether a name and password protect the service (accounts in the database aside)."""
        return bool(self.basic_auth_user)

    @property
    def is_this_machine_only(self) -> bool:
        """Whether every configured address is on loopback."""
        known = (self.public_url, self.backend_url, self.label_studio_url, self.label_studio_public_url)
        hosts = (urlsplit(address).hostname or "" for address in known if address)
        return is_loopback(self.host) and all(map(is_loopback, hosts))

    def secrets(self) -> tuple[str, ...]:
        """Values that must never appear in a log or an answer."""
        names = [one.name for one in fields(self) if one.metadata["setting"].secret and one.name != "database_url"]
        passwords = (urlsplit(address).password or "" for address in (self.database_url, self.smtp_url))
        values = (*(getattr(self, name) for name in names), *passwords)
        return tuple(value for value in values if value)


#: Every variable, in the order they are shown.
TABLE: tuple[Setting, ...] = tuple(one.metadata["setting"] for one in fields(Settings))


def is_loopback(host: str) -> bool:
    """Whether an address or host name can only be reached from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]").split("%")[0]).is_loopback
    except ValueError:
        return False


def lookup(setting: Setting, environ: Mapping[str, str]) -> str:
    """The variable, its _FILE variant (secrets), its older name, or the default, in this order."""
    for name in filter(None, (setting.name, setting.older_name)):
        if environ.get(name, "").strip():
            return environ[name].strip()
    path = environ.get(f"{setting.name}_FILE", "").strip() if setting.secret else ""
    if path:
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{setting.name}_FILE points at {path!r}, which cannot be read: {error}") from error
    return setting.default
