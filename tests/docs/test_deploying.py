"""The files in deploy name commands, flags, paths, ports, secrets and metrics that exist, and agree with each other."""

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from dragoman.cli.main import main
from dragoman.gateway.app import PROBES
from dragoman.gateway.config.load import load
from dragoman.gateway.config.settings import Server
from dragoman.gateway.metrics import GAUGES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "deploying.md").read_text("utf-8")
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")
SETTINGS = DEPLOY / "dragoman.toml"
SECRETS = set(re.findall(r"env:(\w+)", SETTINGS.read_text("utf-8")))
SERVICE = DEPLOY / "systemd" / "dragoman.service"
SOCKET = DEPLOY / "systemd" / "dragoman.socket"
LAST_WORDS = 5  # seconds that a gateway needs beyond its drain


def server() -> dict[str, Any]:
    return tomllib.loads(SETTINGS.read_text("utf-8"))["server"]


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose" / "compose.yml").read_text("utf-8"))["services"]


def manifests() -> dict[str, Any]:
    found = yaml.safe_load_all((DEPLOY / "kubernetes" / "dragoman.yaml").read_text("utf-8"))
    return {one["kind"]: one for one in found}


def unit(path: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in path.read_text("utf-8").splitlines())
    return {name: value for name, sign, value in lines if sign and not name.startswith("#")}


def pod() -> dict[str, Any]:
    return manifests()["Deployment"]["spec"]["template"]["spec"]


def commands() -> list[list[str]]:
    """Return the arguments of `dragoman` in every file."""
    (docker,) = re.findall(r'^CMD (\[".*\])$', DOCKERFILE, re.MULTILINE)
    _, *words = shlex.split(unit(SERVICE)["ExecStart"])
    (container,) = pod()["containers"]
    return [yaml.safe_load(docker), words, container["args"]]


@pytest.mark.parametrize("words", commands(), ids=["docker", "systemd", "kubernetes"])
def test_command_and_its_options_exist(words: list[str]) -> None:
    with main.make_context("dragoman", list(words), resilient_parsing=True) as context:
        name, command, rest = main.resolve_command(context, list(words))
        command.make_context(name, rest, parent=context, resilient_parsing=True)

    assert "serve" == name
    assert "/etc/dragoman/dragoman.toml" == words[-1]


def test_settings_are_good(tmp_path: Path) -> None:
    environ = {name: name * 20 for name in SECRETS} | {"STATE_URL": "redis://redis:6379/0"}
    loaded = load(SETTINGS, environ=environ, cwd=tmp_path)

    assert [] == list(loaded.warnings)


def test_every_file_gives_the_secrets_that_the_settings_need() -> None:
    comments = (DEPLOY / "kubernetes" / "dragoman.yaml").read_text("utf-8").split("apiVersion")[0]

    assert SECRETS == compose()["dragoman"]["environment"].keys()
    assert all(name in comments for name in SECRETS)
    assert {"secretRef": {"name": "dragoman"}} in pod()["containers"][0]["envFrom"]


def test_ports_agree() -> None:
    (container,) = pod()["containers"]
    (port,) = manifests()["Service"]["spec"]["ports"]
    targets = [
        target
        for path in (
            DEPLOY / "compose" / "prometheus.yml",
            DEPLOY / "prometheus" / "prometheus.yml",
        )
        for job in yaml.safe_load(path.read_text("utf-8"))["scrape_configs"]
        for one in job["static_configs"]
        for target in one["targets"]
    ]
    named = [
        *re.findall(r"^EXPOSE (\d+)", DOCKERFILE, re.MULTILINE),
        *re.findall(r"127\.0\.0\.1:(\d+)/health", DOCKERFILE),
        unit(SOCKET)["ListenStream"].rpartition(":")[2],
        container["ports"][0]["containerPort"],
        port["port"],
        *(one.rpartition(":")[2] for one in targets),
        *compose()["dragoman"]["ports"][0].split(":")[1:],
    ]

    assert {str(server()["port"])} == {str(one) for one in named}


def test_probes_ask_paths_that_exist() -> None:
    (container,) = pod()["containers"]
    probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]  # fmt: skip

    assert ["/health", "/health", "/ready"] == [one["path"] for one in probes]
    assert {"/health", "/ready"} <= set(PROBES)
    assert {"http"} == {one["port"] for one in probes}


def test_streams_have_their_time_to_end() -> None:
    (container,) = pod()["containers"]
    program, pause = container["lifecycle"]["preStop"]["exec"]["command"]
    drain = server()["drain_seconds"]

    assert "sleep" == program
    assert int(pause) + drain + LAST_WORDS <= pod()["terminationGracePeriodSeconds"]
    assert drain + LAST_WORDS <= int(compose()["dragoman"]["stop_grace_period"].removesuffix("s"))
    assert Server().drain_seconds + LAST_WORDS <= int(unit(SERVICE)["TimeoutStopSec"])


def test_pods_are_counted_by_a_metric_that_exists() -> None:
    scaler = manifests()["HorizontalPodAutoscaler"]["spec"]
    (metric,) = scaler["metrics"]
    labels = {"app": "dragoman"}

    assert metric["pods"]["metric"]["name"].removeprefix("dragoman_") in GAUGES
    assert manifests()["Deployment"]["metadata"]["name"] == scaler["scaleTargetRef"]["name"]
    assert labels == manifests()["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
    assert labels == manifests()["Service"]["spec"]["selector"]
    assert labels == manifests()["Deployment"]["spec"]["template"]["metadata"]["labels"]


def test_containers_are_not_root_and_cannot_write() -> None:
    (container,) = pod()["containers"]
    user = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)

    assert 2 == len(re.findall(r"^FROM ", DOCKERFILE, re.MULTILINE))
    assert [(str(pod()["securityContext"]["runAsUser"]),) * 2] == user
    assert pod()["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert compose()["dragoman"]["read_only"]
    assert ["/tmp"] == compose()["dragoman"]["tmpfs"]
    assert "/tmp" == container["volumeMounts"][0]["mountPath"]


def test_files_that_are_copied_and_mounted_exist() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    mounted = [one.split(":")[0] for one in (volume for service in compose().values() for volume in service.get("volumes", ()))]  # fmt: skip
    written_by_hand = {"./prometheus.key"}

    for name in " ".join(copied).split():
        assert (ROOT / name).exists()
        assert f"!{name}" in ignore
    for name in set(mounted) - written_by_hand:
        assert (DEPLOY / "compose" / name).is_file()
    build = compose()["dragoman"]["build"]
    assert ROOT == (DEPLOY / "compose" / build["context"]).resolve()
    assert (ROOT / build["dockerfile"]).is_file()


def test_version_of_redis_in_the_image_is_the_locked_one() -> None:
    (installed,) = re.findall(r"\bredis==(\S+)", DOCKERFILE)

    assert f"\nredis=={installed} " in (ROOT / "requirements" / "dev.txt").read_text("utf-8")


def test_units_are_what_systemd_understands(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("this machine has no systemd-analyze")
    for path in (SERVICE, SOCKET):
        text = path.read_text("utf-8").replace("/opt/dragoman/bin/dragoman", "/bin/true")
        (tmp_path / path.name).write_text(text)
    units = [str(tmp_path / path.name) for path in (SERVICE, SOCKET)]
    found = subprocess.run(
        [program, "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert [] == [line for line in found.stderr.splitlines() if str(tmp_path) in line or "dragoman" in line]  # fmt: skip


def test_page_names_every_file() -> None:
    files = [
        path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".dockerignore"
    ]
    folders = {f"deploy/{path.relative_to(DEPLOY).parts[0]}" for path in files}

    assert all(name in PAGE for name in folders)
