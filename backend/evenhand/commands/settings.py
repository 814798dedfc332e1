"""`evenhand settings`: every setting, its value, its default, its meaning."""

import os

import click

from evenhand.commands._failures import says_what_is_wrong
from evenhand.settings import TABLE, Settings, lookup


@click.command("settings")
@says_what_is_wrong
def settings() -> None:
    """Print all settings; secrets are hidden."""
    Settings.from_env(os.environ)
    for setting in TABLE:
        value = lookup(setting, os.environ)
        shown = "(set, hidden)" if setting.secret and value else value or "(empty)"
        click.echo(f"{setting.name} = {shown}")
        click.echo(f"    {setting.help} Default: {setting.default or 'empty'}.")
