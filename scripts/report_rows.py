"""Turn a report of `nerfmac selftest --report` into rows of BENCHMARKS.md and CONTRIBUTING.md.

    python scripts/report_rows.py REPORT.json ...

For each device: the row of the table "Quality against time", what its variants and its longest
launch took, and beside what was predicted. For a Mac also what it settles of CONTRIBUTING's table
of what is proven, by the beginning of the row's first column.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Values = dict[str, Any]


def benchmark_rows(device: Values, report: Values) -> Iterator[str]:
    """Rows for BENCHMARKS.md; none for what the report does not have."""
    machine = f"{device['device_name']}, MLX {report['mlx_version']}"
    if training := found(device, "training"):
        after = f"{training['seconds']:.0f} s | {training['steps']:,}"
        quality = f"{training['psnr']:.2f} dB | {training['ssim']:.3f}"
        command = "`nerfmac selftest --report`"
        version = report["nerfmac_version"]
        yield f"| {training['scene']} | {machine} | {command} | {after} | {quality} | {version} |"
    for operation, tuned in (found(device, "variants") or {}).items():
        for name, tried in tuned["tried"].items():
            took = f"fails: {tried['fault']}" if tried["ms"] is None else spread(tried["ms"])
            which = f"**{name}**" if name == tuned["chosen"] else name
            yield f"| {operation} | {which} | {machine} | {took} |"
    if ceilings := found(device, "ceilings"):
        gigabytes, teraflops = ceilings["bandwidth"] / 1e9, ceilings["rate"] / 1e12
        yield f"| highest rates | {machine} | {gigabytes:.3g} GB/s | {teraflops:.3g} TFLOPS |"
    if predicted := found(device, "prediction"):
        by, ratio = predicted["chip"]["name"], predicted["measured_over_cached"]
        bounds = f"{predicted['cached_ms']:.2f} to {predicted['uncached_ms']:.2f} ms"
        yield (
            f"| a step | {machine} | {predicted['measured_ms']:.2f} ms | {bounds} predicted by "
            f"{by} figures | {ratio:.1f} times the least |"
        )


def settled_rows(device: Values, report: Values, name: str) -> Iterator[str]:
    """What a Mac's report settles of CONTRIBUTING's table: a row's beginning, and what to add."""
    if device["device"] != "metal":
        return
    where = f"settled on {device['device_name']}, {report['system']}, by {name}"
    cases = device["cases"]
    ran = {each for case in cases if not case["fault"] for each in case["specialisations"]}
    if ran and not device["not_run"] and not any(case["fault"] for case in cases):
        yield row("It is in the language", f"Apple's compiler took {len(ran)} texts; {where}")
    arrays = [array for case in cases for array in case["arrays"]]
    if arrays and all(array["passed"] for array in arrays):
        yield row("Results and gradients equal", f"{len(arrays)} arrays agree; {where}")
    limits = {each["most_threads"]: each["function"] for each in device["kernels"]}
    if known := [limit for limit in limits if limit]:
        least = f"the least that a pipeline allows is {min(known)} threads ({limits[min(known)]})"
        yield row("The grid is exact", f"{least}; {where}")
    if gradient := (found(device, "variants") or {}).get("hash_encode_gradient"):
        times = {name: each["ms"] for name, each in gradient["tried"].items() if each["ms"]}
        speeds = ", ".join(f"{name} {ms['median']:.2f} ms" for name, ms in times.items())
        yield row("Sums do not depend on the order", f"{speeds}; {where}")
    if watched := found(device, "watchdog"):
        longest = f"the longest took {watched['longest_ms']:.1f} ms ({watched['launch']})"
        yield row("No launch runs so long", f"{longest} of {watched['bound_ms']:.0f}; {where}")
    if training := found(device, "training"):
        speed = f"a step of preset {training['preset']} takes {training['step_ms']:.2f} ms"
        yield row("Speed", f"{speed}; {where}")


def found(device: Values, finding: str) -> Values | None:
    """A finding of the report; None if it was not made, or failed."""
    values = device.get(finding)
    return values if values and "fault" not in values else None


def row(beginning: str, told: str) -> str:
    """A line for the row whose first column begins so."""
    return f"| {beginning} ... | ... | {told} |"


def spread(ms: Values) -> str:
    """A time with its quartiles."""
    return f"{ms['median']:.3f} ms ({ms['low']:.3f} to {ms['high']:.3f})"


def main(names: list[str]) -> int:
    """Print the rows of each report."""
    if not names:
        print(__doc__, file=sys.stderr)
        return 2
    for name in names:
        report = json.loads(Path(name).read_text(encoding="utf-8"))
        if not report["complete"]:
            print(f"{name} is not complete: it ended in {report['devices'][-1:]}", file=sys.stderr)
            return 2
        for device in report["devices"]:
            print(f"{name}, {device['device']}: {'passed' if device['passed'] else 'FAILED'}")
            print("\nBENCHMARKS.md", *benchmark_rows(device, report), sep="\n")
            settled = list(settled_rows(device, report, Path(name).name))
            told = settled or ["nothing is settled: it is no Mac"]
            print("\nCONTRIBUTING.md, what is proven", *told, "", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
