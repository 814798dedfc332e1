"""Every setting of the service, declared once in TABLE and read once from the environment."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
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


TABLE: tuple[Setting, ...] = (
    Setting(
        "LABEL_STUDIO_URL",
        "",
        "Address of Label Studio as this service reaches it; the only host it ever calls, beside the alert webhook.",
        older_name="LABEL_STUDIO_HOST",
    ),
    Setting(
        "LABEL_STUDIO_API_KEY",
        "",
        "Personal access token or legacy token of a Label Studio user who may read and publish.",
        secret=True,
    ),
    Setting("BASIC_AUTH_USER", "", "User name Label Studio sends with each call."),
    Setting("BASIC_AUTH_PASS", "", "Password of BASIC_AUTH_USER.", secret=True),
    Setting(
        "BASIC_AUTH_ROLE",
        "protocol",
        "What BASIC_AUTH_USER may do: protocol (Label Studio's calls only), reader, reviewer or owner.",
    ),
    Setting(
        "EVENHAND_WEBHOOK_SECRET",
        "",
        f"Value of the header {SECRET_HEADER} that annotation events carry; `evenhand connect` installs it.",
        secret=True,
    ),
    Setting("LABEL_STUDIO_PUBLIC_URL", "", "Address of Label Studio as people reach it; empty: LABEL_STUDIO_URL."),
    Setting("EVENHAND_PUBLIC_URL", "", "Address at which Label Studio and people reach this service."),
    Setting(
        "EVENHAND_BACKEND_URL",
        "",
        "Address at which Label Studio reaches this service, where it differs from EVENHAND_PUBLIC_URL.",
    ),
    Setting(
        "EVENHAND_ALERT_WEBHOOK_URL",
        "",
        "Where alerts are posted (Slack-compatible JSON); empty: nowhere.",
        secret=True,
    ),
    Setting(
        "EVENHAND_ALERT_WEBHOOK_SECRET", "", "Key of the signature in the header X-Evenhand-Signature.", secret=True
    ),
    Setting(
        "EVENHAND_SECRET_KEY",
        "",
        "Key that signs dashboard sessions; empty: made once, kept in a file beside SQLite, else in the database.",
        secret=True,
    ),
    Setting(
        "DATABASE_URL",
        "",
        "postgresql://… or sqlite:///…; empty: the file evenhand.db in MODEL_DIR.",
        secret=True,
    ),
    Setting("MODEL_DIR", "data", "Folder for the SQLite database and cached statistics."),
    Setting("LOG_LEVEL", "INFO", "DEBUG, INFO, WARNING or ERROR."),
    Setting("WORKERS", "1", "Web processes."),
    Setting("THREADS", "8", "Threads per web process."),
    Setting("HOST", "127.0.0.1", "Address to listen on; beyond loopback only with credentials."),
    Setting("PORT", "9090", "Port to listen on."),
    Setting(
        "EVENHAND_RECONCILE_MINUTES",
        "15",
        "Minutes between pulls that heal what events lost; 0: only at start and when Label Studio comes back.",
    ),
    Setting(
        "EVENHAND_MAX_WAITING",
        "64",
        "Requests under way per web process beyond which events are refused with 503; the next pull brings them.",
    ),
    Setting("EVENHAND_MAX_BODY_MB", "10", "Largest request body accepted, in megabytes."),
)

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True)
class Settings:
    """The service's settings; secrets are left out of its repr."""

    label_studio_url: str = ""
    label_studio_api_key: str = field(default="", repr=False)
    basic_auth_user: str = ""
    basic_auth_pass: str = field(default="", repr=False)
    basic_auth_role: Role = "protocol"
    webhook_secret: str = field(default="", repr=False)
    label_studio_public_url: str = ""
    public_url: str = ""
    backend_url: str = ""
    alert_webhook_url: str = field(default="", repr=False)
    alert_webhook_secret: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    database_url: str = field(default="sqlite:///data/evenhand.db", repr=False)
    model_dir: Path = Path("data")
    log_level: str = "INFO"
    workers: int = 1
    threads: int = 8
    host: str = "127.0.0.1"
    port: int = 9090
    reconcile_minutes: float = 15.0
    max_body_mb: float = 10.0
    max_waiting: int = 64

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "Settings":
        """Read and validate all settings; a bad value raises SettingsError with the variable's name."""
        value = {setting.name: lookup(setting, environ) for setting in TABLE}
        model_dir = Path(value["MODEL_DIR"]).expanduser()
        if bool(value["BASIC_AUTH_USER"]) != bool(value["BASIC_AUTH_PASS"]):
            missing = "BASIC_AUTH_PASS" if value["BASIC_AUTH_USER"] else "BASIC_AUTH_USER"
            raise SettingsError(f"{missing} is empty while its partner is set; set both or neither")
        return cls(
            label_studio_url=_url("LABEL_STUDIO_URL", value),
            label_studio_api_key=value["LABEL_STUDIO_API_KEY"],
            basic_auth_user=value["BASIC_AUTH_USER"],
            basic_auth_pass=value["BASIC_AUTH_PASS"],
            basic_auth_role=_role(value["BASIC_AUTH_ROLE"]),
            webhook_secret=value["EVENHAND_WEBHOOK_SECRET"],
            label_studio_public_url=_url("LABEL_STUDIO_PUBLIC_URL", value) or _url("LABEL_STUDIO_URL", value),
            public_url=_url("EVENHAND_PUBLIC_URL", value),
            backend_url=_url("EVENHAND_BACKEND_URL", value) or _url("EVENHAND_PUBLIC_URL", value),
            alert_webhook_url=_url("EVENHAND_ALERT_WEBHOOK_URL", value),
            alert_webhook_secret=value["EVENHAND_ALERT_WEBHOOK_SECRET"],
            secret_key=value["EVENHAND_SECRET_KEY"],
            database_url=_database_url(value["DATABASE_URL"], model_dir),
            model_dir=model_dir,
            log_level=_log_level(value["LOG_LEVEL"]),
            workers=_whole("WORKERS", value, 1, 64),
            threads=_whole("THREADS", value, 1, 256),
            host=value["HOST"],
            port=_whole("PORT", value, 0, 65535),
            reconcile_minutes=_number("EVENHAND_RECONCILE_MINUTES", value, 0.0, 1e6),
            max_waiting=_whole("EVENHAND_MAX_WAITING", value, 1, 1000),
            max_body_mb=_number("EVENHAND_MAX_BODY_MB", value, 0.001, 1024.0),
        )

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
        password = urlsplit(self.database_url).password or ""
        values = (
            self.label_studio_api_key,
            self.basic_auth_pass,
            self.webhook_secret,
            self.alert_webhook_url,
            self.alert_webhook_secret,
            self.secret_key,
            password,
        )
        return tuple(value for value in values if value)


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


def _url(name: str, value: Mapping[str, str]) -> str:
    """An http(s) address without trailing slash, or ''."""
    text = value[name].rstrip("/")
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.username or parts.password:
        is_secret = any(setting.secret for setting in TABLE if setting.name == name)
        shown = "no address" if is_secret else repr(text)
        raise SettingsError(f"{name} is {shown}; expected http://host[:port] or https://…, without user or password")
    return text


def _database_url(text: str, model_dir: Path) -> str:
    """The SQLAlchemy address; plain postgres addresses get the driver we ship."""
    if not text:
        return f"sqlite:///{model_dir / 'evenhand.db'}"
    for prefix in ("postgres://", "postgresql://"):
        if text.startswith(prefix):
            return "postgresql+psycopg://" + text[len(prefix) :]
    if text.startswith(("postgresql+psycopg://", "sqlite:///")):
        return text
    raise SettingsError(
        f"DATABASE_URL starts with {text.split(':')[0]!r}; expected postgresql://user:password@host/name or sqlite:///file"
    )


def _log_level(text: str) -> str:
    """A level name in capitals."""
    if text.upper() not in LOG_LEVELS:
        raise SettingsError(f"LOG_LEVEL is {text!r}; expected one of {', '.join(LOG_LEVELS)}")
    return text.upper()


def _role(text: str) -> Role:
    """A role by its name."""
    found = next((role for role in ROLES if role == text.lower()), None)
    if found is None:
        raise SettingsError(f"BASIC_AUTH_ROLE is {text!r}; expected one of {', '.join(ROLES)}")
    return found


def _number(name: str, value: Mapping[str, str], low: float, high: float) -> float:
    """A number within bounds."""
    try:
        number = float(value[name])
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise SettingsError(f"{name} is {value[name]!r}; expected a number from {low:g} to {high:g}")
    return number


def _whole(name: str, value: Mapping[str, str], low: int, high: int) -> int:
    """A whole number within bounds."""
    number = _number(name, value, low, high)
    if number != int(number):
        raise SettingsError(f"{name} is {value[name]!r}; expected a whole number")
    return int(number)
