"""compose.yaml and the Kubernetes manifests, as far as that goes without an engine and a cluster.

Strict YAML; what one part of a file names is there in another; files that are mounted exist; the
configurations of pgcourier in them pass `pgcourier check`. Not checked: that the fields are those
that Compose and Kubernetes know.
"""

import os
import re
import subprocess
import sys
import tempfile

import yaml

SOURCE = os.environ["SOURCE"]
faults = []


def expect(holds, what):
    if not holds:
        faults.append(what)


class Strict(yaml.SafeLoader):
    """Keys given twice are a fault."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        for key in keys:
            expect(keys.count(key) == 1, f"{node.start_mark}: {key} stands there twice")
        return super().construct_mapping(node, deep)


def load(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return list(yaml.load_all(file, Strict))


def check_config(text, where, environment=()):
    """Files that a container would have are made here."""
    with tempfile.TemporaryDirectory() as folder:
        for path in re.findall(r"_file: (/\S+)", text):
            secret = os.path.join(folder, os.path.basename(path))
            with open(secret, "w", encoding="utf-8") as file:
                file.write("0123456789abcdef0123456789abcdef\n")
            text = text.replace(path, secret)
        path = os.path.join(folder, "pgcourier.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        run = subprocess.run([os.environ["PGCOURIER"], "check", "-c", path], capture_output=True, text=True,
                             env={**os.environ, **dict(environment)}, check=False)
        expect(run.returncode == 0, f"{where}: {run.stdout}{run.stderr}")


def check_compose():
    (compose,) = load("compose.yaml")
    services = compose["services"]
    with open(os.path.join(SOURCE, "Dockerfile"), encoding="utf-8") as file:
        has_health = "\nHEALTHCHECK " in file.read()
    for name, service in services.items():
        where = f"compose.yaml: {name}"
        for volume in service.get("volumes", []):
            source, target, *_ = volume.split(":")
            expect(os.path.exists(os.path.join(SOURCE, source)), f"{where}: there is no {source}")
            expect(target.startswith("/"), f"{where}: {target}")
        for secret in service.get("secrets", []):
            expect(secret in compose["secrets"], f"{where}: there is no secret {secret}")
        for port in service.get("ports", []):
            expect(port.startswith("127.0.0.1:"), f"{where}: {port} is open to other machines")
        for other, needs in service.get("depends_on", {}).items():
            expect(other in services, f"{where}: there is no service {other}")
            if needs["condition"] == "service_healthy":
                own = services[other].get("healthcheck", {}).get("test")
                of_image = services[other]["image"] == "pgcourier" and has_health
                expect(own or of_image, f"{where}: {other} has no health check")
        tag = service["image"].partition(":")[2]
        expect(service["image"] == "pgcourier" or tag not in ("", "latest"), f"{where}: which version?")
    for name, secret in compose["secrets"].items():
        expect(os.path.exists(os.path.join(SOURCE, secret["file"])), f"compose.yaml: secret {name}")
    with open(os.path.join(SOURCE, "contrib/compose/pgcourier.yaml"), encoding="utf-8") as file:
        environment = dict(services["pgcourier"]["environment"])
        environment["ADMIN_TOKEN_FILE"] = os.path.join(SOURCE, compose["secrets"]["token"]["file"])
        check_config(file.read(), "contrib/compose/pgcourier.yaml", environment)


def environment_of(pod):
    """What the container finds; of a pod that has this name."""
    (container,) = [one for one in pod["containers"] if one["name"] == "pgcourier"]
    fields = {"metadata.name": "pgcourier-5d4f8c7b9-x2k7q"}
    return {one["name"]: one["value"] if "value" in one else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
            for one in container.get("env", [])}


def check_pod(where, deployment, maps):
    spec = deployment["spec"]
    pod = spec["template"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    for key, value in spec["selector"]["matchLabels"].items():
        expect(labels.get(key) == value, f"{where}: the selector does not match {key}")
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for volume in volumes.values():
        if "configMap" in volume:
            expect(volume["configMap"]["name"] in maps, f"{where}: ConfigMap {volume['configMap']['name']}")
    (container,) = [one for one in pod["containers"] if one["name"] == "pgcourier"]
    for mount in container["volumeMounts"]:
        expect(mount["name"] in volumes, f"{where}: there is no volume {mount['name']}")
        expect(mount["readOnly"] is True, f"{where}: {mount['name']} can be written")
    for constraint in pod.get("topologySpreadConstraints", []):
        wanted = constraint["labelSelector"]["matchLabels"]
        expect(wanted.items() <= labels.items(), f"{where}: {constraint['topologyKey']} spreads nothing")
    security = {**pod.get("securityContext", {}), **container["securityContext"]}
    expect(security["runAsNonRoot"] is True and security["runAsUser"] == 10001, f"{where}: user")
    expect(security["readOnlyRootFilesystem"] is True, f"{where}: the root can be written")
    expect(security["allowPrivilegeEscalation"] is False, f"{where}: escalation")
    expect(security["capabilities"] == {"drop": ["ALL"]}, f"{where}: capabilities")
    expect(security["seccompProfile"]["type"] == "RuntimeDefault", f"{where}: seccomp")
    expect(pod["terminationGracePeriodSeconds"] > 10, f"{where}: less time than relay.drain")
    ports = [port["name"] for port in container.get("ports", [])]
    for probe in ("livenessProbe", "readinessProbe"):
        get = container.get(probe, {}).get("httpGet")
        expect(get is None or get["port"] in ports, f"{where}: {probe} asks a port that is not there")
    expect("livenessProbe" in container, f"{where}: no livenessProbe")
    return ports


def check_kubernetes(path):
    objects = load(path)
    maps = {one["metadata"]["name"]: one for one in objects if one["kind"] == "ConfigMap"}
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    for name, one in maps.items():
        check_config(one["data"]["pgcourier.yaml"], f"{path}: ConfigMap {name}",
                     environment_of(deployment["spec"]["template"]["spec"]))
    ports = check_pod(path, deployment, maps)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for one in objects:
        expect({"apiVersion", "kind", "metadata"} <= one.keys(), f"{path}: {one}")
        if one["kind"] == "PodDisruptionBudget":
            # One that allows no pod to go lets no node be emptied.
            allowed = one["spec"].get("maxUnavailable", deployment["spec"]["replicas"] - one["spec"].get("minAvailable", 0))
            expect(0 < allowed < deployment["spec"]["replicas"], f"{path}: the budget allows {allowed} to go")
        if one["kind"] in ("PodMonitor", "PodDisruptionBudget"):
            wanted = one["spec"]["selector"]["matchLabels"]
            expect(wanted.items() <= labels.items(), f"{path}: {one['kind']} selects nothing")
        for scraped in one["spec"].get("podMetricsEndpoints", []) if one["kind"] == "PodMonitor" else []:
            expect(scraped["port"] in ports, f"{path}: the PodMonitor asks a port that is not there")


check_compose()
check_kubernetes("contrib/kubernetes/relay.yaml")
check_kubernetes("contrib/kubernetes/sidecar.yaml")
for name in ("prometheus.yml", "grafana/datasources/prometheus.yaml", "grafana/dashboards/pgcourier.yaml"):
    load(f"contrib/compose/{name}")
print("\n".join(faults))
sys.exit(1 if faults else 0)
