"""Judges requests of a relay by other people's packages, as verify.mjs does: /usr/bin/python3 verify.py FOLDER NEWEST OLDER."""

import pathlib
import re
import sys

import standardwebhooks
import svix

BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
PACKAGES = {"standard": standardwebhooks.Webhook, "svix": svix.Webhook}


def passes(package, secret, body, headers):
    try:
        package(secret).verify(body, headers)
    except Exception:  # whatever it is, the request is not taken
        return False
    return True


def changed_texts(text):
    """Of each longer word each letter: also the last, of which two bits say nothing."""
    for match in re.finditer(r"[0-9A-Za-z+/]{8,}", text):
        for place in range(*match.span()):
            other = str((int(text[place]) + 1) % 10) if match[0].isdigit() else BASE64[(BASE64.index(text[place]) + 32) % 64]
            yield match.start(), text[:place] + other + text[place + 1:]


def judge(name, package, folder, secrets):
    body = (folder / f"{name}.body").read_bytes()
    lines = (folder / f"{name}.headers").read_text(encoding="utf-8").strip().split("\n")
    headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines}
    for secret in secrets:
        package(secret).verify(body, headers)
    wrong = [("a foreign secret", "whsec_bm8gc2VjcmV0IG9mIG91cnMsIG9mIGNvdXJzZQ==", body, headers)]
    for place in range(len(body)):
        changed = bytes([*body[:place], body[place] ^ 1, *body[place + 1:]])
        wrong.append((f"byte {place} changed", secrets[0], changed, headers))
    for header in ("webhook-id", "webhook-timestamp"):
        wrong += [(text, secrets[0], body, headers | {header: text}) for _, text in changed_texts(headers[header])]
    for what, *request in wrong:
        assert not passes(package, *request), f"{name}: passes with {what}"
    for secret in secrets:  # each by its own signature alone
        own = [where for where, text in changed_texts(headers["webhook-signature"])
               if not passes(package, secret, body, headers | {"webhook-signature": text})]
        assert len(own) == 43 and len(set(own)) == 1, f"{name}: changes of a signature pass"
    print(f"{name}: verified by {len(secrets)}, refused {len(wrong) + 43 * len(secrets)} changed ones")


for request_name, its_package in PACKAGES.items():
    judge(request_name, its_package, pathlib.Path(sys.argv[1]), sys.argv[2:])
