"""What a person does with a page: read it, send a form."""

from __future__ import annotations

import re

from evenhand.domain import Project
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

TABS = ("", "/ranking", "/figures", "/runs", "/decisions", "/settings")
HTML = {"Accept": "text/html"}


def get(client: FlaskClient, path: str) -> str:
    answer = client.get(path, headers=HTML)
    assert answer.status_code == 200, answer.text
    return answer.text


def token(client: FlaskClient, path: str = "/ui/") -> str:
    found = re.search(r'name="csrf_token" value="([^"]+)"', client.get(path, headers=HTML).text)
    assert found is not None
    return found.group(1)


def post(client: FlaskClient, path: str, /, **form: str) -> TestResponse:
    return client.post(path, data={"csrf_token": token(client), **form}, headers=HTML)


def visible(page: str) -> str:
    return re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)


def person_url(project: Project, annotator: str) -> str:
    return f"/ui/projects/{project.id}/annotator?id={annotator}"


def settings_form(page: str) -> dict[str, str]:
    """What a browser would send back unchanged."""
    form = dict(re.findall(r'<input id="set-[^"]+" name="([^"]+)" value="([^"]*)"', page))
    for name, options in re.findall(r'<select id="set-[^"]+" name="([^"]+)".*?>(.*?)</select>', page, re.DOTALL):
        (form[name],) = re.findall(r'value="([^"]*)" selected', options)
    form |= dict.fromkeys(re.findall(r'type="checkbox" id="[^"]+" name="([^"]+)"[^>]* checked', page), "on")
    return {**form, "answers": ""}
