"""Gathers what scripts/gpu_check.sh has left in a folder into report.json and report.md."""

import json
import pathlib
import sys


def measurements(text):
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            found.append(json.loads(line))
    return found


def schemes(folder, name):
    """What a run of `rserve bench` measured, as the other measurements are."""
    file = folder / f"{name}.json"
    if not file.exists():
        return
    results = json.loads(file.read_text())
    for run in results["runs"]:
        scheme = f"{name.replace('_', '.')}.{run['scheme']}"
        yield {"name": f"{scheme}.ttft", "value": run["ttft_ms"]["mean"], "unit": "ms, mean"}
        yield {"name": f"{scheme}.throughput", "value": run["tokens_per_s"], "unit": "tokens/s"}
    for ratio in results["ratios"]:
        yield {"name": f"{name.replace('_', '.')}.{ratio['scheme']}_to_{ratio['to']}.ttft",
               "value": ratio["ttft"], "unit": ""}


def main():
    folder, dry = pathlib.Path(sys.argv[1]), sys.argv[2] == "yes"
    report = {"dry": dry, "steps": [], "measurements": []}
    for line in (folder / "steps.txt").read_text().splitlines():
        name, code, seconds = line.split()
        output = (folder / f"{name}.txt").read_text(errors="replace")
        report["steps"].append({"name": name, "passed": code == "0", "exit": int(code),
                                "seconds": int(seconds), "output": output[-4000:]})
        if name == "device":
            report["device"] = output.strip()
        if name in ("bench", "reference"):
            for found in measurements(output):
                report["measurements"].append({"by": name, **found})
        for found in schemes(folder, name):
            report["measurements"].append({"by": "engine", **found})
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")

    lines = ["# GPU check" + (" (dry run: emulated, times mean nothing)" if dry else ""), ""]
    if "device" in report:
        lines += [report["device"], ""]
    lines += ["| step | result | seconds |", "|---|---|---|"]
    for step in report["steps"]:
        result = "passed" if step["passed"] else f"failed ({step['exit']})"
        lines.append(f"| {step['name']} | {result} | {step['seconds']} |")
    lines += ["", "| measured | by | value | unit |", "|---|---|---|---|"]
    for m in report["measurements"]:
        lines.append(f"| {m['name']} | {m['by']} | {m['value']:.4g} | {m['unit']} |")
    for step in report["steps"]:
        if not step["passed"]:
            lines += ["", f"## {step['name']}", "", "```", step["output"].rstrip(), "```"]
    (folder / "report.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
