#!/usr/bin/env python3
"""The Helm chart, without a cluster: `tests/packages/chart.py`.

It is linted, and rendered with its own values, with each block of values of docs/operate/kubernetes.md and with values that are to be refused. What comes
of it is held to Kubernetes' schemas, of an old and a new version, and to what the page promises: probes, the way out, rights, who may write where.
The configuration in it is one. helm and kubernetes-validate are fetched where they are not installed; what cannot run here is reported as skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

try:
    import yaml
except ModuleNotFoundError:
    yaml = None

ROOT = Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "packaging/helm/tutti"
GUIDE = ROOT / "docs/operate/kubernetes.md"
ADAPTER = ROOT / "packaging/monitoring/prometheus-adapter.yml"
# The oldest version that the guide names, and the newest that the tool knows.
KUBERNETES = ["1.27.0", "1.37.0"]
# Kinds of others, which Kubernetes has no schema for.
FOREIGN = {"PodMonitor"}


def skipped(suite, reason):
    print(f"{suite}: skipped: {reason}", flush=True)
    if os.environ.get("TUTTI_SKIPPED"):
        with open(os.environ["TUTTI_SKIPPED"], "a", encoding="utf-8") as file:
            file.write(f"{suite}\t{reason}\n")


def version():
    for line in (ROOT / "Cargo.toml").read_text().splitlines():
        if line.startswith("version = "):
            return line.split('"')[1]
    raise AssertionError("Cargo.toml has no version")


def registry():
    """The repository of Tutti's images."""
    return tomllib.loads((ROOT / "packaging/image/tags.toml").read_text(encoding="utf-8"))["registry"]


def tool(name, tell):
    """The path of a tool, which is fetched where it is not installed; None, with a message, where it cannot be fetched."""
    fetched = subprocess.run([ROOT / "packaging/fetch-tool", name], capture_output=True, text=True, check=False)
    if fetched.returncode:
        tell(fetched.stderr.strip())
        return None
    return fetched.stdout.strip()


def blocks(page, start):
    """The blocks of YAML of a page that begin with this line."""
    return [block for block in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S) if block.startswith(start)]


def guide_values(page):
    """The values that the guide shows, each as a text."""
    found = blocks(page, "# values.yaml")
    name, = re.findall(r"^\$ helm install site (\S+) --values values.yaml$", page, re.M)
    assert name == f"tutti-chart-{version()}.tgz" and f'"$out/{name.replace(version(), "$version")}"' in (ROOT / "packaging/release").read_text(encoding="utf-8"), "what a release has"
    assert re.search(rf"^\$ curl -fsSLO https://\S+/releases/{version()}/{name}$", page, re.M), "where it is"
    assert f"`dist/tutti-{version()}.tgz`" in page, "what `make chart` packs"
    assert len(found) >= 4, "docs/operate/kubernetes.md shows values for each of its subjects"
    return found


def kinds_of(text):
    """The kinds of objects in a text, in its order."""
    return re.findall(r"^kind: (\w+)$", text, re.M)


class Chart:
    def __init__(self, helm):
        self.helm = helm
        self.folder = tempfile.TemporaryDirectory()

    def values(self, text):
        path = Path(self.folder.name) / "values.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, order, text, *more):
        # A helm that Go has built from its module takes Kubernetes for 1.20.
        return subprocess.run([self.helm, order, *more, CHART, "--values", self.values(text), "--kube-version", KUBERNETES[0]], capture_output=True, text=True, check=False)

    def render(self, text=""):
        done = self.run("template", text, "--namespace", "shop", "site")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, text=""):
        found = {}
        for one in yaml.safe_load_all(self.render(text)):
            if one:
                found.setdefault(one["kind"], []).append(one)
        return found

    def refuses(self, text, words):
        done = self.run("template", text, "site")
        assert done.returncode != 0 and words in done.stderr, f"{text}: {done.stderr or done.stdout[:500]}"


def pod_of(objects):
    return objects["Deployment"][0]["spec"]["template"]["spec"]


def one_by_default(chart):
    objects = chart.objects()
    assert sorted(objects) == ["ConfigMap", "Deployment", "PodDisruptionBudget", "Service"], sorted(objects)
    pod = pod_of(objects)
    container = pod["containers"][0]
    # No process is root, nothing is written but in the folders for it, and there is no token.
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert pod["automountServiceAccountToken"] is False and "serviceAccountName" not in pod
    written = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert written == {"/var/lib/tutti", "/run/tutti", "/tmp"}, written
    assert all("subPath" not in mount for mount in container["volumeMounts"]), "the kubelet never replaces what has a subPath"
    # The way in and the way out.
    assert all(container[probe] for probe in ("startupProbe", "livenessProbe", "readinessProbe"))
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]
    assert pod["terminationGracePeriodSeconds"] > 5 + 60, "`limits.drain_timeout` is 60 seconds, after the delay"
    image = (ROOT / "packaging/image/Dockerfile").read_text(encoding="utf-8")
    assert "STOPSIGNAL SIGQUIT" in image, "the signal that ends the container lets requests end"
    assert container["image"] == f"{registry()}:{version()}", "what `packaging/push-images` publishes"
    # The flags are those of the image, and more.
    assert container["args"] == ["--config", "/etc/tutti/conf.d", "--watch"] and 'CMD ["--config", "/etc/tutti/conf.d"]' in image
    budget = objects["PodDisruptionBudget"][0]["spec"]
    assert budget["maxUnavailable"] == 1 and budget["selector"]["matchLabels"].items() <= objects["Deployment"][0]["spec"]["template"]["metadata"]["labels"].items()
    assert "PodDisruptionBudget" not in chart.objects("replicas: 1\n"), "a budget for one pod would keep its machine for ever"
    print("chart: probes, the way out, and who may write where")


def each_thing_when_it_is_asked_for(chart):
    with_endpoints = chart.objects("endpoints: {namespaces: [shop, mail]}\n")
    rules = [role["rules"] for role in with_endpoints["Role"]]
    assert rules == [[{"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}]] * 2, rules
    assert {role["metadata"]["namespace"] for role in with_endpoints["Role"]} == {"shop", "mail"}
    account = with_endpoints["ServiceAccount"][0]["metadata"]["name"]
    pod = pod_of(with_endpoints)
    assert pod["serviceAccountName"] == account and pod["automountServiceAccountToken"] is True
    assert all(binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "shop"}] for binding in with_endpoints["RoleBinding"])
    own = chart.objects("serviceAccount: mine\nendpoints: {namespaces: [shop]}\n")
    assert "ServiceAccount" not in own and own["RoleBinding"][0]["subjects"][0]["name"] == "mine"

    scaled = chart.objects("metrics: {enabled: true, podMonitor: true}\nautoscaling: {enabled: true}\n")
    assert "replicas" not in scaled["Deployment"][0]["spec"], "two who say how many there are"
    wanted = scaled["HorizontalPodAutoscaler"][0]["spec"]["metrics"][0]["pods"]
    rule = yaml.safe_load(ADAPTER.read_text(encoding="utf-8"))["rules"]["custom"][0]
    assert wanted["metric"]["name"] == rule["name"]["as"], "the adapter has what the autoscaler asks for"
    family = rule["seriesQuery"].partition("{")[0].removesuffix("_sum")
    families = (ROOT / "crates/metrics/src/families.rs").read_text(encoding="utf-8")
    assert f'Histogram "{family}"' in families, family
    assert f"{family}_sum" in rule["metricsQuery"] and f"{family}_count" in rule["metricsQuery"]
    assert "metrics.yaml" in scaled["ConfigMap"][0]["data"]
    ports = {port["name"]: port["containerPort"] for port in pod_of(scaled)["containers"][0]["ports"]}
    assert ports == {"http": 8080, "metrics": 9145} and scaled["PodMonitor"][0]["spec"]["podMetricsEndpoints"] == [{"port": "metrics"}]

    replaced = chart.objects("watch: false\n")["Deployment"][0]["spec"]["template"]
    other = chart.objects("watch: false\nconfiguration: {routes: []}\n")["Deployment"][0]["spec"]["template"]
    assert "--watch" not in replaced["spec"]["containers"][0]["args"]
    assert replaced["metadata"]["annotations"] != other["metadata"]["annotations"], "another configuration replaces the pods"
    fleet = chart.objects("source: etcd://a:2379/shop\n")
    assert "ConfigMap" not in fleet and pod_of(fleet)["containers"][0]["args"] == ["--source", "etcd://a:2379/shop"]
    print("chart: rights, metrics and autoscaling where they are asked for")


def mistakes_are_refused(chart):
    chart.refuses("autoscaling: {enabled: true}\n", "set `metrics.enabled` too")
    chart.refuses("metrics: {podMonitor: true}\n", "needs `metrics.enabled`")
    chart.refuses("drainDelay: 90\n", "has to be longer than `drainDelay`")
    chart.refuses("replica: 3\n", "replica")
    chart.refuses("port: 70000\n", "port")
    print("chart: mistakes are refused")


def is_held_to_schemas(chart, texts):
    path = tool("kubernetes-validate", lambda reason: skipped("chart", reason))
    if not path:
        return
    environment = {**os.environ, "PYTHONPATH": str(Path(path).parent.parent)}
    for text in texts:
        objects = [one for of_kind in chart.objects(text).values() for one in of_kind if one["kind"] not in FOREIGN]
        rendered = Path(chart.folder.name) / "rendered.yaml"
        rendered.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
        for kubernetes in KUBERNETES:
            words = [sys.executable, "-m", "kubernetes_validate", "--strict", "--no-warn", "-k", kubernetes, rendered]
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{text}\nKubernetes {kubernetes}: {done.stdout}{done.stderr}"
    print(f"chart: {len(texts)} sets of values are held to the schemas of Kubernetes {' and '.join(KUBERNETES)}")


def has_a_configuration(chart, texts):
    tutti = shutil.which("tutti", path=os.environ.get("DIST", str(ROOT / "dist")) + "/bin")
    if not tutti:
        return skipped("chart", "there is no `tutti` (make build): configurations are not checked")
    for text in texts:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in chart.objects(text).get("ConfigMap", [{"data": {"none.json": "{}"}}])[0]["data"].items():
                (Path(folder) / name).write_text(content, encoding="utf-8")
            done = subprocess.run([tutti, "config", "check", folder], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{text}: {done.stdout}{done.stderr}"
    print(f"chart: {len(texts)} configurations are checked")


def main():
    about = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    assert f'kubeVersion: ">={KUBERNETES[0]}-0"' in about, "packaging/helm/tutti/Chart.yaml asks for another Kubernetes than the oldest that is tested"
    assert f"version: {version()}\nappVersion: {version()}\n" in about, "packaging/helm/tutti/Chart.yaml has another version than Cargo.toml"
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    if yaml is None:
        skipped("chart", "python3 has no `yaml` (package python3-yaml)")
        return 0
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert set(values) | {"global"} == set(schema["properties"]), set(values) ^ set(schema["properties"])
    page = GUIDE.read_text(encoding="utf-8")
    shown = guide_values(page)
    rule = blocks(page, "rules:")
    assert [yaml.safe_load(block) for block in rule] == [yaml.safe_load(ADAPTER.read_text(encoding="utf-8"))], "the guide has the rule of the adapter"
    helm = tool("helm", lambda reason: skipped("chart", reason))
    if not helm:
        return 0
    chart = Chart(helm)
    texts = ["", *shown]
    for text in texts:
        done = chart.run("lint", text, "--strict")
        assert done.returncode == 0, f"{text}: {done.stdout}{done.stderr}"
    kinds = kinds_of(chart.render(shown[0]))
    assert kinds == kinds_of(page), f"the guide shows other kinds than {kinds}"
    one_by_default(chart)
    each_thing_when_it_is_asked_for(chart)
    mistakes_are_refused(chart)
    is_held_to_schemas(chart, texts)
    has_a_configuration(chart, texts)
    print("chart: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
