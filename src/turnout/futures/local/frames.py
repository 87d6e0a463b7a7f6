"""What an executor and a worker of it say to each other, over a socket that only they have.

A frame is a kind, a length and that many bytes. To a worker: LEARN a function, the CALLS to make, DROP the last of
them, segments that were FREED. From it: READY, RESULTS, and segments that were FREED.

A call may be made only with a *token*, a byte in a pipe: the executor puts one in for each call it sends, the worker
takes one out before each call it makes. So calls that wait behind a long one can be taken back, by taking out tokens;
there is no moment at which both have a call. A token is the number of times that this was done (of 256): a worker that
draws one of another number first reads on, to the frame that says what it has to DROP.
"""

from __future__ import annotations

import struct

HEAD = struct.Struct("<BQ")
LEARN, CALLS, DROP, READY, RESULTS, FREED = range(6)
#: The number of a function; 0 = one that comes with the arguments.
FUNCTION = struct.Struct("<I")
#: The number of a call, that of its function, the length of its arguments, and how many large buffers they have.
CALL = struct.Struct("<QIQH")
#: How many of the last calls are dropped, and what tokens are from now on.
DROPPED = struct.Struct("<IB")
#: The number of a call, how it ended, seconds it took, the length of what it returned, and its large buffers.
RESULT = struct.Struct("<QBfQH")
#: A segment, the process and the file number of the one that has it, its size, bytes that are used, may be written.
BUFFER = struct.Struct("<QIIQQ?")
SEGMENT = struct.Struct("<Q")
#: The number of the call that a worker is at (0 = at none), and when its function was called; 0 = not yet.
PLACE = struct.Struct("<Qd")
CALLED = struct.Struct("<d")


def frame(kind: int, parts: list[bytes]) -> bytes:
    body = b"".join(parts)
    return HEAD.pack(kind, len(body)) + body
