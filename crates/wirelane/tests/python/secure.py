"""Calls a store over TLS, by a certificate and by a token. Arguments: the folder of the .proto, one for the stubs, the
server, and files: the authority, the certificate and its key, the token, a certificate that has expired and its key."""

import sys

import grpc
from grpc_tools import protoc

PROTO, STUBS, SERVER, CA, CERTIFICATE, KEY, TOKEN, OLD, OLD_KEY = sys.argv[1:]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    from wirelane.kv.v1 import kv_pb2 as kv
    from wirelane.kv.v1 import kv_pb2_grpc

    mutual = grpc.ssl_channel_credentials(read(CA), read(KEY), read(CERTIFICATE))
    with grpc.secure_channel(SERVER, mutual) as channel:
        store = kv_pb2_grpc.KvStub(channel)
        store.Put(kv.PutRequest(key=b"by/certificate", value=b"1"))
        assert len(store.Ticket(kv.TicketRequest()).ticket) == 48

    token = read(TOKEN).split()[1].decode()
    known = grpc.composite_channel_credentials(
        grpc.ssl_channel_credentials(read(CA)), grpc.access_token_call_credentials(token)
    )
    with grpc.secure_channel(SERVER, known) as channel:
        store = kv_pb2_grpc.KvStub(channel)
        assert store.Get(kv.GetRequest(key=b"by/certificate")).value == b"1"
        try:
            store.Put(kv.PutRequest(key=b"by/token", value=b"2"))
            raise AssertionError("the token is for reading alone")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.PERMISSION_DENIED, error.details()

    with grpc.secure_channel(SERVER, grpc.ssl_channel_credentials(read(CA))) as channel:
        try:
            kv_pb2_grpc.KvStub(channel).Get(kv.GetRequest(key=b"by/certificate"))
            raise AssertionError("nothing was shown")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED, error.details()

    expired = grpc.ssl_channel_credentials(read(CA), read(OLD_KEY), read(OLD))
    with grpc.secure_channel(SERVER, expired) as channel:
        try:
            kv_pb2_grpc.KvStub(channel).Get(kv.GetRequest(key=b"by/certificate"))
            raise AssertionError("the certificate has expired")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error.details()
    print("all is well")


out = [f"-I{PROTO}", f"--python_out={STUBS}", f"--grpc_python_out={STUBS}"]
assert protoc.main(["protoc", *out, "wirelane/kv/v1/kv.proto"]) == 0
sys.path.insert(0, STUBS)
main()
