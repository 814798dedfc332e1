"""Settings: one table, read once, wrong values named, secrets hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from evenhand.cli import main
from evenhand.errors import SettingsError
from evenhand.settings import TABLE, Settings


def test_settings_defaults_describe_a_local_service() -> None:
    settings = Settings.from_env({})
    assert (settings.host, settings.port, settings.has_credentials) == ("127.0.0.1", 9090, False)
    assert settings.database_url == "sqlite:///data/evenhand.db"


def test_settings_older_name_counts_where_the_new_one_is_not_set() -> None:
    assert Settings.from_env({"LABEL_STUDIO_HOST": "http://old/"}).label_studio_url == "http://old"
    both = {"LABEL_STUDIO_HOST": "http://old", "LABEL_STUDIO_URL": "http://new"}
    assert Settings.from_env(both).label_studio_url == "http://new"


def test_settings_secret_from_a_file_is_stripped(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("  abc123\n", encoding="utf-8")
    assert Settings.from_env({"LABEL_STUDIO_API_KEY_FILE": str(tmp_path / "key")}).label_studio_api_key == "abc123"
    with pytest.raises(SettingsError, match="EVENHAND_SECRET_KEY_FILE"):
        Settings.from_env({"EVENHAND_SECRET_KEY_FILE": str(tmp_path / "missing")})


def test_settings_addresses_differ_where_people_and_machines_reach_us_differently() -> None:
    settings = Settings.from_env({"EVENHAND_PUBLIC_URL": "http://people", "LABEL_STUDIO_URL": "http://ls"})
    assert (settings.backend_url, settings.label_studio_public_url) == ("http://people", "http://ls")


@pytest.mark.parametrize("url", ["postgres://u:p@h/d", "postgresql://u:p@h/d", "postgresql+psycopg://u:p@h/d"])
def test_settings_postgres_addresses_get_our_driver(url: str) -> None:
    assert Settings.from_env({"DATABASE_URL": url}).database_url == "postgresql+psycopg://u:p@h/d"


@pytest.mark.parametrize(
    "environ",
    [
        {"PORT": "x"}, {"PORT": "99999"}, {"WORKERS": "0"}, {"THREADS": "1.5"}, {"LOG_LEVEL": "LOUD"},
        {"LABEL_STUDIO_URL": "ftp://x"}, {"LABEL_STUDIO_URL": "http://u:p@x"}, {"EVENHAND_PUBLIC_URL": "here"},
        {"EVENHAND_ALERT_WEBHOOK_URL": "http://[x"}, {"DATABASE_URL": "mysql://x"}, {"EVENHAND_MAX_BODY_MB": "nan"},
        {"EVENHAND_RECONCILE_MINUTES": "-1"}, {"BASIC_AUTH_USER": "lead"}, {"BASIC_AUTH_PASS": "x"},
    ],
)  # fmt: skip
def test_settings_wrong_value_stops_with_the_variable_named(environ: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="BASIC_AUTH" if "BASIC" in next(iter(environ)) else next(iter(environ))):
        Settings.from_env(environ)


def test_settings_secrets_are_neither_shown_nor_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {setting.name: "hidden-value-1" for setting in TABLE if setting.secret and setting.name != "DATABASE_URL"}
    values |= {"DATABASE_URL": "postgresql://u:hidden-value-1@h/d", "BASIC_AUTH_USER": "lead"}
    values["EVENHAND_ALERT_WEBHOOK_URL"] = "https://hooks.example/hidden-value-1"
    values["EVENHAND_SMTP_URL"] = "smtp://lead:hidden-value-1@mail.example"
    settings = Settings.from_env(values)
    assert "hidden-value-1" not in repr(settings)
    assert "hidden-value-1" in settings.secrets()
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    shown = CliRunner().invoke(main, ["settings"])
    assert shown.exit_code == 0
    assert "hidden-value-1" not in shown.output
    assert all(setting.name in shown.output for setting in TABLE)
