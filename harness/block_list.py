"""Label Studio's block list of addresses as compose sets it, for Label Studios on loopback."""

import ipaddress
from pathlib import Path
from typing import Any

DOCKER = Path(__file__).resolve().parent.parent / "docker"
#: The one address that compose's list leaves open, and the loopback addresses that stand for it and its neighbours.
EVENHAND_ADDRESS = "192.168.251.3"
OPEN, BLOCKED = "127.0.0.1", "127.0.0.2"


def env_file(path: Path) -> dict[str, str]:
    """Read a file of variables."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def blocking_settings() -> dict[str, str]:
    """Return compose's block list with OPEN open instead of Evenhand's address."""
    settings = {name: value for name, value in env_file(DOCKER / "label-studio.env").items() if "BANNED" in name}
    banned: list[Any] = [
        ipaddress.ip_network(subnet) for subnet in settings["USER_ADDITIONAL_BANNED_SUBNETS"].split(",")
    ]
    wanted = ipaddress.ip_network(f"{OPEN}/32")
    closed: list[Any] = [ipaddress.ip_network(f"{EVENHAND_ADDRESS}/32")]
    for subnet in banned:
        inside = subnet.version == wanted.version and wanted.subnet_of(subnet)
        closed += list(subnet.address_exclude(wanted)) if inside else [subnet]
    switches = {"ML_BLOCK_LOCAL_IP": "true", "SSRF_PROTECTION_ENABLED": "true"}
    return {**settings, **switches, "USER_ADDITIONAL_BANNED_SUBNETS": ",".join(map(str, closed))}
