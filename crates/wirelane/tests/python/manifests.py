"""Checks manifests against what clusters take. Arguments: the folder of our schemas of custom objects, then files of YAML.

Objects of Kubernetes itself are checked by kubernetes-validate, against an old release and the newest it knows. Custom
objects are checked against our own schemas of the fields we write, and, where the variable WIRELANE_CRDS names a folder of
CustomResourceDefinitions, against those that it has. An object that nothing knows is a failure."""

import json
import os
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml

CORE = {"v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1"}
RELEASES = ["1.28", kubernetes_validate.latest_version()]


def custom_schemas(folder):
    schemas = [json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json")]
    names = lambda fields: (fields["apiVersion"]["const"], fields["kind"]["const"])
    return {names(schema["properties"]): schema for schema in schemas}


def cluster_schemas(folder):
    """Schemas by version and kind, strict: a field that a definition does not have would be dropped without a word."""
    schemas = {}
    for path in sorted(pathlib.Path(folder).glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document.get("kind") == "CustomResourceDefinition":
                spec = document["spec"]
                for version in spec["versions"]:
                    name = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
                    schemas[name] = strict(version["schema"]["openAPIV3Schema"], is_root=True)
    return schemas


def strict(schema, is_root=False):
    schema = dict(schema)
    if "properties" in schema:
        schema["properties"] = {name: strict(inner) for name, inner in schema["properties"].items()}
        if is_root:
            schema["properties"]["metadata"] = {"type": "object"}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema["additionalProperties"] = False
    if "items" in schema:
        schema["items"] = strict(schema["items"])
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
        schema.pop("anyOf", None)
    return schema


def check(document, ours, theirs):
    kind, checked = (document["apiVersion"], document["kind"]), []
    if kind[0] in CORE:
        for release in RELEASES:
            kubernetes_validate.validate(document, release, strict=True)
            checked.append(release)
    for name, schemas in [("ours", ours), ("the cluster's", theirs)]:
        if kind in schemas:
            jsonschema.validate(document, schemas[kind])
            checked.append(name)
    assert checked, f"nothing knows {kind}"
    return f"{kind[1]} by {', '.join(checked)}"


def main():
    ours = custom_schemas(sys.argv[1])
    folder = os.environ.get("WIRELANE_CRDS")
    theirs = cluster_schemas(folder) if folder else {}
    count = 0
    for path in sys.argv[2:]:
        for document in yaml.safe_load_all(pathlib.Path(path).read_text()):
            print(f"{os.path.basename(path)}: {check(document, ours, theirs)}")
            count += 1
    known = ", ".join(kind for _, kind in sorted(theirs)) or "none, WIRELANE_CRDS is not set"
    print(f"{count} objects; definitions of a cluster: {known}")
    print("all is well")


main()
