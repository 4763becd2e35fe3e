"""What `wirelane bench nccl` makes of logs, checked against the schema; and the script for PyTorch, read by Python."""

import json
import pathlib
import subprocess
import sys

from jsonschema import Draft202012Validator

program, schema, logs, root = sys.argv[1:]
with open(schema) as file:
    validator = Draft202012Validator(json.load(file))

names = sorted(path for path in pathlib.Path(logs).iterdir() if path.suffix in (".log", ".json"))
assert len(names) > 15, names
for path in names:
    said = subprocess.run(
        [program, "bench", "nccl", "--read", path, "--root", root, "--json"],
        capture_output=True,
        timeout=60,
    )
    assert said.returncode in (0, 1), (path, said.stderr)
    document = json.loads(said.stdout)
    validator.validate(document)
    assert document["verdict"]["summary"], path

script = subprocess.run(
    [program, "bench", "torch", "--print-script"], capture_output=True, check=True, text=True
).stdout
helped = subprocess.run([sys.executable, "-c", script, "--help"], capture_output=True, timeout=60)
assert helped.returncode == 0 and b"--processes" in helped.stdout, helped
without = subprocess.run(
    [sys.executable, "-c", script, "--op", "none"], capture_output=True, timeout=60
)
assert without.returncode == 2, without

print("all is well")
