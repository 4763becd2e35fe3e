"""What `wirelane bench --json` prints, checked by a validator of JSON schemas."""

import json
import subprocess
import sys

from jsonschema import Draft202012Validator

program, schema = sys.argv[1:]
with open(schema) as file:
    schema = json.load(file)
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)

for line in (
    "bw --transport tcp --sweep --count 20 --warmup 0 --verify",
    "lat --sizes 8,4KiB --count 100",
    "rate --op send --transport tcp --count 100 --expect 1/s",
    "compare --time 0.05",
):
    said = subprocess.run(
        [program, "bench", *line.split(), "--local", "--json"], capture_output=True, timeout=120
    )
    assert said.returncode == 0, (line, said.stderr)
    document = json.loads(said.stdout)
    validator.validate(document)
    document["points"][0]["gpbs"] = 1
    assert not validator.is_valid(document), "a field that nobody knows is found"

print("all is well")
