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


# What the project aims at: a measurement, at least or at most, and what it is. A pair of names: the
# first over the second.
GOALS = (
    (("bench", "prefill.8192.chunk8192.of_ceiling"), ">=", 0.60,
     "prefill of 8k tokens, of the product ceiling"),
    (("bench", "encode.8x1024.of_ceiling"), ">=", 0.45, "encode, of the product ceiling"),
    (("bench", "ttft.8x1024+2048.overlapped.time", "reference", "ttft.8x1024+2048.time"), "<=", 0.80,
     "TTFT of 8 images and 2k text, of the reference's"),
    (("engine", "schemes.streams.rserve.ttft", "engine", "schemes.streams.epd.ttft"), "<=", 1.00,
     "TTFT, rserve over epd, streams"),
    (("engine", "schemes.turns.rserve.ttft", "engine", "schemes.turns.epd.ttft"), "<=", 1.00,
     "TTFT, rserve over epd, turns"),
    (("engine", "schemes.parts.rserve.ttft", "engine", "schemes.parts.epd.ttft"), "<=", 1.00,
     "TTFT, rserve over epd, parts"),
)
# Ours over the reference's, where both were measured.
RATIOS = (
    ("encode.1x1024.time", "encode.1x1024.time"),
    ("encode.8x1024.time", "encode.8x1024.time"),
    ("prefill.8192.chunk8192.time", "prefill.8192.time"),
    ("ttft.8x1024+2048.overlapped.time", "ttft.8x1024+2048.time"),
    ("ttft.8x1024+2048.one_after_another.time", "ttft.8x1024+2048.time"),
)


def add_ratios(report):
    """Goals and ratios from what was measured; a goal whose numbers are not there is not measured."""
    values = {(m["by"], m["name"]): m["value"] for m in report["measurements"]}
    for ours, theirs in RATIOS:
        pair = (values.get(("bench", ours)), values.get(("reference", theirs)))
        if None not in pair and pair[1] > 0:
            report["measurements"].append({"by": "both", "name": f"{ours} to the reference's",
                                           "value": pair[0] / pair[1], "unit": ""})
    report["goals"] = []
    for names, way, limit, what in GOALS:
        parts = [values.get(names[i:i + 2]) for i in range(0, len(names), 2)]
        value = None
        if None not in parts:
            value = parts[0] if len(parts) == 1 else parts[0] / parts[1]
        met = value is not None and (value >= limit if way == ">=" else value <= limit)
        report["goals"].append({"what": what, "goal": f"{way} {limit:.2f}", "value": value,
                                "met": met})


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
    add_ratios(report)
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")

    lines = ["# GPU check" + (" (dry run: emulated, times mean nothing)" if dry else ""), ""]
    if "device" in report:
        lines += [report["device"], ""]
    lines += ["| step | result | seconds |", "|---|---|---|"]
    for step in report["steps"]:
        result = "passed" if step["passed"] else f"failed ({step['exit']})"
        lines.append(f"| {step['name']} | {result} | {step['seconds']} |")
    lines += ["", "| goal | | measured | met |", "|---|---|---|---|"]
    for goal in report["goals"]:
        value = "not measured" if goal["value"] is None else f"{goal['value']:.3g}"
        met = "-" if goal["value"] is None or dry else "yes" if goal["met"] else "no"
        lines.append(f"| {goal['what']} | {goal['goal']} | {value} | {met} |")
    lines += ["", "| measured | by | value | unit |", "|---|---|---|---|"]
    for m in report["measurements"]:
        lines.append(f"| {m['name']} | {m['by']} | {m['value']:.4g} | {m['unit']} |")
    for step in report["steps"]:
        if not step["passed"]:
            lines += ["", f"## {step['name']}", "", "```", step["output"].rstrip(), "```"]
    (folder / "report.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
