"""Uses every call of the store. Arguments: the folder of the .proto, one for the stubs, and the server."""

import sys

import grpc
from grpc_tools import protoc

PROTO, STUBS, SERVER = sys.argv[1:]
FILE = "wirelane/kv/v1/kv.proto"


def generate():
    """The stubs, as any project would generate them."""
    out = [f"-I{PROTO}", f"--python_out={STUBS}", f"--grpc_python_out={STUBS}"]
    assert protoc.main(["protoc", *out, FILE]) == 0
    sys.path.insert(0, STUBS)


def crc32c(data):
    """CRC-32C (Castagnoli), bit by bit: for short data."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def refused(code, call, request):
    try:
        call(request)
    except grpc.RpcError as error:
        assert error.code() == code, f"{error.code()} is not {code}: {error.details()}"
        return error
    raise AssertionError(f"{code} was expected")


def main():
    from wirelane.kv.v1 import kv_pb2 as kv
    from wirelane.kv.v1 import kv_pb2_grpc

    # No option is given: what the server sends must fit what every client takes.
    channel = grpc.insecure_channel(SERVER)
    grpc.channel_ready_future(channel).result(timeout=30)
    store = kv_pb2_grpc.KvStub(channel)

    info = store.Info(kv.InfoRequest())
    assert info.pool.capacity_bytes == 256 << 20 and info.limits.max_items == 1000
    assert {transport.name for transport in info.transports} == {"shm", "verbs", "ofi", "tcp"}

    assert not store.Get(kv.GetRequest(key=b"a")).found
    first = store.Put(kv.PutRequest(key=b"a", value=b"one"))
    got = store.Get(kv.GetRequest(key=b"a", checksum=True))
    assert (got.found, got.value, got.metadata.version) == (True, b"one", first.version)
    assert got.crc32c == crc32c(b"one") and not got.metadata.HasField("expires_in_ms")
    assert store.Get(kv.GetRequest(key=b"a", offset=1, length=1)).value == b"n"
    refused(grpc.StatusCode.OUT_OF_RANGE, store.Get, kv.GetRequest(key=b"a", offset=4))
    refused(grpc.StatusCode.INVALID_ARGUMENT, store.Get, kv.GetRequest())

    absent = kv.PutRequest(key=b"a", value=b"x", options=kv.PutOptions(if_absent=True))
    error = refused(grpc.StatusCode.FAILED_PRECONDITION, store.Put, absent)
    assert dict(error.trailing_metadata())["wirelane-version"] == str(first.version)

    # As large as one message may be, and larger.
    largest = bytes(info.limits.max_unary_bytes)
    store.Put(kv.PutRequest(key=b"large", value=largest))
    assert store.Get(kv.GetRequest(key=b"large")).value == largest
    long = bytes(range(256)) * (50 << 12)
    chunks = (long[at : at + 300_000] for at in range(0, len(long), 300_000))

    def parts():
        yield kv.WriteRequest(start=kv.WriteStart(key=b"long", length=len(long)))
        for chunk in chunks:
            yield kv.WriteRequest(data=chunk)

    written = store.Write(parts())
    refused(grpc.StatusCode.OUT_OF_RANGE, store.Get, kv.GetRequest(key=b"long"))
    stream = list(store.Read(kv.ReadRequest(key=b"long")))
    assert stream[0].start.metadata.version == written.version
    assert stream[-1].WhichOneof("part") == "end"
    assert b"".join(reply.data for reply in stream[1:-1]) == long
    cancelled = store.Read(kv.ReadRequest(key=b"long"))
    next(cancelled)
    cancelled.cancel()

    items = [kv.PutRequest(key=b"many/%d" % at, value=b"%d" % at) for at in range(1000)]
    results = store.MultiPut(kv.MultiPutRequest(items=items)).results
    assert all(result.HasField("reply") for result in results)
    keys = [item.key for item in items] + [b"none"]
    refused(grpc.StatusCode.INVALID_ARGUMENT, store.MultiGet, kv.MultiGetRequest(keys=keys))
    results = store.MultiGet(kv.MultiGetRequest(keys=keys[1:])).results
    assert [result.reply.value for result in results[:-1]] == [item.value for item in items[1:]]
    assert not results[-1].reply.found

    listed, cursor = set(), 0
    while True:
        page = store.List(kv.ListRequest(prefix=b"many/", cursor=cursor, limit=77))
        listed.update(key.key for key in page.keys)
        cursor = page.next_cursor
        if cursor == 0:
            break
    assert listed == set(keys[:-1])

    session = store.OpenSession(kv.OpenSessionRequest())
    write_id = kv.WriteId(session=session.id, sequence=1)
    once = store.Put(kv.PutRequest(key=b"once", value=b"1", write_id=write_id))
    again = store.Put(kv.PutRequest(key=b"once", value=b"1", write_id=write_id))
    assert once == again
    lost = kv.WriteId(session=bytes(16), sequence=1)
    refused(grpc.StatusCode.UNKNOWN, store.Put, kv.PutRequest(key=b"once", write_id=lost))

    assert store.Stat(kv.StatRequest(key=b"once")).metadata.length == 1
    deleted = store.Delete(kv.DeleteRequest(key=b"once"))
    assert deleted.existed and deleted.version == once.version
    assert not store.Delete(kv.DeleteRequest(key=b"once")).existed
    assert not store.Stat(kv.StatRequest(key=b"once")).found
    print("all is well")


generate()
main()
