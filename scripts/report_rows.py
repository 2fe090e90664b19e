"""Turn a report of `nerfmac selftest --report` into rows of BENCHMARKS.md and CONTRIBUTING.md.

    python scripts/report_rows.py REPORT.json ...

For each device: the row of the table "Quality against time", what its variants, its kernels and its
longest launch took, and a step beside what was predicted. For a Mac also what it settles of
CONTRIBUTING's table of what is proven, by the beginning of the row's first column.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Values = dict[str, Any]


def benchmark_rows(device: Values, report: Values) -> Iterator[str]:
    """A row and tables for BENCHMARKS.md; none for what the report does not have."""
    machine = f"{device['device_name']}, MLX {report['mlx_version']}"
    commit = report.get("nerfmac_commit", report["nerfmac_version"])
    if training := found(device, "training"):
        after = f"{training['seconds']:.0f} s | {training['steps']:,}"
        quality = f"{training['psnr']:.2f} dB | {training['ssim']:.3f}"
        command = "`nerfmac selftest --report`"
        yield f"| {training['scene']} | {machine} | {command} | {after} | {quality} | {commit} |"
    yield from ("", f"{machine}, {report['system']}, commit {commit}:")
    if variants := found(device, "variants"):
        yield from table("operation", "variant", "a call", "round by round, of the first's time")
        for operation, tuned in variants.items():
            for name, tried in tuned["tried"].items():
                which = f"**{name}**" if name == tuned["chosen"] else name
                yield f"| {operation} | {which} | {outcome(tried)} |"
    yield from speed_rows(device)


def speed_rows(device: Values) -> Iterator[str]:
    """What the machine can do, what its kernels reach of that, and what was predicted of a step."""
    most = found(device, "ceilings") or {"bandwidth": None, "rate": None}
    kernels = found(device, "kernels") or []
    if kernels:
        yield from table("kernel", "a launch", "each array moved once", "operations", "threads")
    if most["bandwidth"] and most["rate"]:
        highest = rate(most["bandwidth"] / 1e9, "GB/s"), rate(most["rate"] / 1e9, "GFLOPS")
        yield f"| the highest rates | | {highest[0]} | {highest[1]} | |"
    for each in kernels:
        moved = rate(each["gigabytes_per_second"], "GB/s", most["bandwidth"])
        computed = rate(each["gigaflops"], "GFLOPS", most["rate"])
        threads = each["most_threads"] or ""
        took = spread(each["milliseconds"])
        name = f"{each['computation']}, {each['function']}"
        yield f"| {name} | {took} | {moved} | {computed} | {threads} |"
    if watched := found(device, "watchdog"):
        longest = f"{watched['longest_ms']:.1f} ms ({watched['launch']})"
        yield from (
            "",
            f"The longest launch took {longest}; {watched['bound_ms']:.0f} are allowed.",
        )
    if predicted := found(device, "prediction"):
        by, ratio = predicted["chip"]["name"], predicted["measured_over_cached"]
        rates = "the highest rates" if by == "measured" else f"an {by}'s published rates"
        bounds = f"{predicted['cached_ms']:.2f} to {predicted['uncached_ms']:.2f} ms by {rates}"
        took = f"A step took {predicted['measured_ms']:.2f} ms"
        yield from ("", f"{took}, {ratio:.1f} times the least that was predicted: {bounds}.")


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
    limits = {each["most_threads"]: each["function"] for each in found(device, "kernels") or []}
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


def found(device: Values, finding: str) -> Any:
    """A finding of the report; None if it was not made, or failed."""
    values = device.get(finding)
    return values if values and "fault" not in values else None


def row(beginning: str, told: str) -> str:
    """A line for the row whose first column begins so."""
    return f"| {beginning} ... | ... | {told} |"


def table(*columns: str) -> tuple[str, ...]:
    """The beginning of a table."""
    return "", f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"


def outcome(tried: Values) -> str:
    """What a variant took, and beside the first one."""
    if tried["ms"] is None:
        return f"fails: {tried['fault']} |"
    at_most = tried["ratio_at_most"]
    return f"{spread(tried['ms'])} | {tried['ratio']:.2f}, at most {at_most:.2f}"


def rate(billions: float | None, unit: str, highest: float | None = None) -> str:
    """A rate, 10^9 a second, and its part of the highest; a cache may lift it above that."""
    if not billions:
        return ""
    part = f", {1e9 * billions / highest:.0%}" if highest else ""
    return f"{billions:.3g} {unit}{part}" if billions < 1000 else f"{billions:,.0f} {unit}{part}"


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
