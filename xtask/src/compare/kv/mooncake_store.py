"""Mooncake Store on this machine: `node` has the memory for values, `gets` reads them in batches and prints values per second.

node MASTER MEMORY
gets MASTER SIZE KEYS READS BATCH
"""

import ctypes
import sys
import time

from mooncake.store import MooncakeDistributedStore

TRANSFER_BYTES = 64 << 20
# A prime: successive batches begin at different keys.
STRIDE = 7919


def connect(master, memory):
    store = MooncakeDistributedStore()
    # No port: it chooses one.
    status = store.setup("127.0.0.1", "P2PHANDSHAKE", memory, TRANSFER_BYTES, "tcp", "", master)
    if status != 0:
        sys.exit(f"setup: {status}")
    return store


def node(master, memory):
    store = connect(master, int(memory))
    print("ready", flush=True)
    # Until the other end of the pipe is closed.
    sys.stdin.read()
    store.close()


def value(key, size):
    return key.to_bytes(8, "little") + b"\7" * (size - 16) + key.to_bytes(8, "little")


def gets(master, size, keys, reads, batch):
    size, keys, reads, batch = int(size), int(keys), int(reads), int(batch)
    store = connect(master, 0)
    names = [f"{size} {number}" for number in range(keys)]
    for number, name in enumerate(names):
        if not store.is_exist(name):
            status = store.put(name, value(number, size))
            if status != 0:
                sys.exit(f"put: {status}")
    memory = ctypes.create_string_buffer(size * batch)
    address = ctypes.addressof(memory)
    if store.register_buffer(address, size * batch) != 0:
        sys.exit("register_buffer failed")
    addresses, sizes = [address + at * size for at in range(batch)], [size] * batch

    def read(first):
        numbers = [(first + at) % keys for at in range(batch)]
        lengths = store.batch_get_into([names[number] for number in numbers], addresses, sizes)
        if lengths != sizes:
            sys.exit(f"batch_get_into: {lengths}")
        # The ends of each value, as the other program compares them.
        for at, number in enumerate(numbers):
            ends = memory[at * size : at * size + 8], memory[(at + 1) * size - 8 : (at + 1) * size]
            if ends != (number.to_bytes(8, "little"),) * 2:
                sys.exit(f"key {number} has another value")

    rounds = max(reads // batch, 1)
    for number in range(max(rounds // 10, 1)):
        read(number * STRIDE)
    started = time.monotonic()
    for number in range(rounds):
        read(number * STRIDE)
    print(f"{rounds * batch / (time.monotonic() - started):.1f}")
    store.unregister_buffer(address)
    store.close()


if __name__ == "__main__":
    {"node": node, "gets": gets}[sys.argv[1]](*sys.argv[2:])
