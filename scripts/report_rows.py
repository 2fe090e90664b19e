"""Turn reports of `nerfmac selftest --report` into rows of BENCHMARKS.md and CONTRIBUTING.md.

    python scripts/report_rows.py REPORT.json ...

For each device: a row of the table "Quality against time", tables of its variants and kernels, its
longest launch, and a step's time with its estimate. For a Mac also additions to CONTRIBUTING's
table "What is proven", each after the first words of its row.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Values = dict[str, Any]


def benchmark_rows(device: Values, report: Values) -> Iterator[str]:
    """Rows and tables for BENCHMARKS.md, of those findings that the report has."""
    machine = f"{device['device_name']}, MLX {report['mlx_version']}"
    version = report["nerfmac_version"]
    if training := found(device, "training"):
        after = f"{training['seconds']:.0f} s | {training['steps']:,}"
        quality = f"{training['psnr']:.2f} dB | {training['ssim']:.3f}"
        command = "`nerfmac selftest --report`"
        yield f"| {training['scene']} | {machine} | {command} | {after} | {quality} | {version} |"
    yield from ("", f"{machine}, {report['system']}, nerfmac {version}:")
    if variants := found(device, "variants"):
        yield from table("operation", "variant", "a call", "round by round, of the first's time")
        for operation, tuned in variants.items():
            for name, tried in tuned["tried"].items():
                which = f"**{name}**" if name == tuned["chosen"] else name
                yield f"| {operation} | {which} | {outcome(tried)} |"
    yield from speed_rows(device)


def speed_rows(device: Values) -> Iterator[str]:
    """The machine's highest rates, its kernels' times and rates, and a step's estimate."""
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
    """Additions to CONTRIBUTING's table that a Mac's report allows; none for other devices."""
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
    """A finding of the report; None if it was not measured or failed."""
    values = device.get(finding)
    return values if values and "fault" not in values else None


def row(beginning: str, told: str) -> str:
    """An addition to the row whose first column begins with `beginning`."""
    return f"| {beginning} ... | ... | {told} |"


def table(*columns: str) -> tuple[str, ...]:
    """The heading of a Markdown table."""
    return "", f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"


def outcome(tried: Values) -> str:
    """A variant's time, and its ratio to the first variant's."""
    if tried["ms"] is None:
        return f"fails: {tried['fault']} |"
    at_most = tried["ratio_at_most"]
    return f"{spread(tried['ms'])} | {tried['ratio']:.2f}, at most {at_most:.2f}"


def rate(billions: float | None, unit: str, highest: float | None = None) -> str:
    """A rate in 10^9 per second, and its part of the highest; caches may lift it above 100 %."""
    if not billions:
        return ""
    part = f", {1e9 * billions / highest:.0%}" if highest else ""
    return f"{billions:.3g} {unit}{part}" if billions < 1000 else f"{billions:,.0f} {unit}{part}"


def spread(ms: Values) -> str:
    """A median time with its quartiles."""
    return f"{ms['median']:.3f} ms ({ms['low']:.3f} to {ms['high']:.3f})"


def main(names: list[str]) -> int:
    """Print the rows of the reports `names`; return the exit code."""
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
