"""The rules of Metal that judge.py holds a kernel to, and a breach of one."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Rule(StrEnum):
    """A rule of Metal, or a stricter rule of nerfmac; the value is its description."""

    SIGNATURE = "a kernel returns void and takes what Metal can give it"
    ATTRIBUTE = "an attribute is one that Metal knows, where it belongs, with a valid argument"
    BUFFERS = "a kernel has at most 31 buffers, each with its own index"
    HOST_NAME = "an instance has the name of its kernel"
    ADDRESS_SPACE = "a pointer leads to the address space that is asked for"
    UNQUALIFIED = "a pointer or reference names its address space"
    READ_ONLY = "constant memory is only read"
    PROGRAM_SCOPE = "a static or program-scope variable is a constant in `constant`"
    THREADGROUP = "a threadgroup variable stands at the top of the kernel's body, without a value"
    THREADGROUP_SIZE = "threadgroup memory has 32 KB"
    FUNCTION = "a function exists, for these types and for one choice of them"
    ATOMIC = "an atomic type is one that Metal has"
    STRUCT = (
        "a struct goes to device or threadgroup memory member by member, as clang knows no other"
    )
    MATRIX = "a simdgroup_matrix has 8 by 8 elements of float, half or bfloat"
    VECTOR = "a vector converts to another type element by element only"
    NARROWING = "braces do not narrow"
    DOUBLE = "nothing is a double"
    UNINITIALIZED = "a variable has a value before it is read"
    RECURSION = "no function calls itself"
    FUNCTION_POINTER = "no function is called through a pointer"
    UNDEFINED = "a function that is called has a body"
    ARRAY_LENGTH = "an array's length is a constant"
    RETURN = "a function that has a result returns it"
    SHADOW = "no name hides another"
    KEYWORD = "no keyword of Metal is a name"
    CPP = "a feature of C++ is one that Metal has"
    LANGUAGE = "the text is C++14, and C++17, with Metal's library"
    HEADER = "no name is one that MLX's own header, which comes first, has given a meaning"
    ASCII = "each character is one of ASCII, which is all that MLX hands on"
    UNROLLED = "an array of simdgroup matrices has constant indices once its loops are unrolled"
    THREAD_ARRAY = "inside an unrolled loop, an array of a thread has constant indices"
    REGISTERS = "a lane's simdgroup matrices take what spilling registers can still bear"


class Complaint(NamedTuple):
    """A broken rule: the line in the source code (0 for the whole of it), and a description."""

    rule: Rule
    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message} ({self.rule.name}: {self.rule.value})"
