"""The Grafana dashboard asks for metrics that exist, and for all of them."""

import json
import re
from pathlib import Path

from evenhand.app import create_app
from evenhand.settings import Settings

DASHBOARD = Path(__file__).resolve().parents[2] / "docker" / "grafana" / "evenhand.json"
#: What Prometheus adds to the name of a family, by its type.
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}


def offered(folder: Path) -> dict[str, set[str]]:
    """Names that /metrics offers, by family."""
    client = create_app(Settings.from_env({"MODEL_DIR": str(folder)})).test_client()
    client.get("/health")
    text = client.get("/metrics").get_data(as_text=True)
    families = re.findall(r"^# TYPE (evenhand_\w+) (\w+)$", text, re.MULTILINE)
    found = {}
    for name, kind in families:
        if not name.endswith("_created"):
            base = name.removesuffix("_total")
            found[base] = {base + suffix for suffix in SUFFIXES[kind]}
    return found


def test_dashboard_asks_for_metrics_that_exist_and_for_every_family(tmp_path: Path) -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    asked = {
        name for panel in panels for target in panel["targets"] for name in re.findall(r"evenhand_\w+", target["expr"])
    }
    families = offered(tmp_path)
    assert asked - set().union(*families.values()) == set()
    assert [family for family, names in families.items() if not names & asked] == []


def test_dashboard_panels_have_titles_units_and_places_of_their_own() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    assert len({panel["title"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in panels)
