"""Shared libraries in the Executable and Linkable Format (System V ABI, chapters 4 and 5, and its AMD64 supplement)."""

import struct

_PAGE = 0x1000


def returning_one(name: str) -> bytes:
    """The file of a shared library for x86-64 that has one function, which returns 1.

    Args:
        name: By which programs find the function when they are linked: a C identifier.
    """
    code = b"\xb8\x01\x00\x00\x00\xc3"  # mov eax, 1; ret
    names = b"\0" + name.encode() + b"\0"
    first, headers, symbol = 64, 4, struct.Struct("<IBBHQQ")
    at_hash = first + headers * 56
    hashes = struct.pack("<6I", 1, 2, 1, 0, 0, 0)  # a bucket, in which symbol 1 is, and nothing after it
    at_symbols = at_hash + len(hashes)
    at_names = at_symbols + 2 * symbol.size
    at_code = at_names + len(names)
    symbols = bytes(symbol.size) + symbol.pack(1, 0x12, 0, 1, at_code, len(code))  # global, a function
    size = at_code + len(code)
    tags = {4: at_hash, 5: at_names, 6: at_symbols, 10: len(names), 11: symbol.size, 0: 0}
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags.items())

    def segment(kind: int, flags: int, at: int, length: int, align: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, flags, at, at, at, length, length, align)

    file = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, first, 0, 0, first, 56, headers, 64, 0, 0
    )
    file += segment(1, 5, 0, size, _PAGE)  # loaded, to be read and executed
    file += segment(1, 6, _PAGE, len(dynamic), _PAGE)  # loaded, to be read and written: the loader relocates it
    file += segment(2, 6, _PAGE, len(dynamic), 8)  # where to find what is needed to link
    file += segment(0x6474E551, 6, 0, 0, 16)  # the stack is not executed
    return (file + hashes + symbols + names + code).ljust(_PAGE, b"\0") + dynamic
