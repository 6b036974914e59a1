"""Ends TLS for a server that speaks in the clear: tls_front.py PORT TARGET_PORT CERT KEY."""

import socket
import ssl
import sys
import threading


def carry(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    finally:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def serve(client, context, target_port):
    try:
        secured = context.wrap_socket(client, server_side=True)
        target = socket.create_connection(("127.0.0.1", target_port))
    except OSError:
        return
    threading.Thread(target=carry, args=(secured, target), daemon=True).start()
    threading.Thread(target=carry, args=(target, secured), daemon=True).start()


def main():
    port, target_port, cert, key = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with socket.create_server(("127.0.0.1", int(port))) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client, context, int(target_port)),
                             daemon=True).start()


main()
