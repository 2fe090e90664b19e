"""What the command line prints goes where shells send it."""

import subprocess
import sys


def test_a_reader_who_leaves_early_sees_no_traceback():
    # yes(1) and head(1) in one: far more output than a pipe holds, of which one line is read.
    command = "from nerfmac.cli import info, main; info._operation = lambda name: 'x' * 2**20; "
    process = subprocess.Popen(
        [sys.executable, "-c", command + "main(['info', '--device', 'cpu'])"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline().startswith("nerfmac")
        process.stdout.close()
        complaint = process.stderr.read()
    assert "Traceback" not in complaint
    assert process.returncode == 0
