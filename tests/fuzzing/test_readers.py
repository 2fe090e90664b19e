"""Mutated files are read or refused: the short form of scripts/fuzz.py, and what that has found."""

import random
import warnings
from pathlib import Path

import pytest

from tests.fuzzing.mutations import mutation_of
from tests.fuzzing.readers import READERS, attempt

pytestmark = pytest.mark.usefixtures("on_the_cpu")

CORPUS = Path(__file__).with_name("corpus")
"""Inputs READER/NAME.FILE that once caused a failure. Each replaces the reader's FILE."""
INPUTS = 30
"""Mutated inputs of each reader; scripts/fuzz.py has read more than a million."""


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", READERS)
def test_a_mutated_file_is_read_or_refused(tmp_path, name):
    reader, folder = READERS[name], tmp_path / "files"
    reader.write(folder)
    assert attempt(reader.read, folder) is None, "its own files are refused"
    rng, refused = random.Random(name), 0
    for _ in range(INPUTS):
        file = rng.choice(reader.files(folder))
        valid = file.read_bytes()
        file.write_bytes(mutation_of(file.name)(valid, rng))
        refused += attempt(reader.read, folder) is not None
        file.write_bytes(valid)
    assert refused, "no mutation did any harm"


@pytest.mark.parametrize("found", sorted(CORPUS.glob("*/*")), ids=lambda path: path.name)
def test_what_fuzzing_found_is_read_or_refused_in_one_line(tmp_path, found):
    reader, folder = READERS[found.parent.name], tmp_path / "files"
    reader.write(folder)
    (file,) = (path for path in reader.files(folder) if found.name.endswith(f".{path.name}"))
    file.write_bytes(found.read_bytes())
    message = attempt(reader.read, folder)
    assert message is None or "\n" not in message.strip()
