"""An OCI bundle out of an image's root and configuration, as strict as a careful cluster runs it.

oci_bundle.py IMAGE_JSON ROOT BUNDLE MOUNT... -- ARGUMENT...

MOUNT is SOURCE:TARGET; the arguments stand in for the image's CMD.

Read-only root, the image's user, entry point and environment, no capability, no new privileges,
the host's network. Writes BUNDLE/config.json.
"""

import json
import sys

image_path, root, bundle = sys.argv[1:4]
words = sys.argv.index("--")
with open(image_path, encoding="utf-8") as file:
    image = json.load(file)["Docker"]["config"]
uid, gid = (int(number) for number in image["User"].split(":"))


def mount(target, kind, *options):
    return {"destination": target, "type": kind, "source": kind, "options": list(options)}


mounts = [
    mount("/proc", "proc"),
    mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
    mount("/sys", "sysfs", "nosuid", "noexec", "nodev", "ro"),
]
for pair in sys.argv[4:words]:
    source, target = pair.split(":")
    mounts.append({"destination": target, "type": "bind", "source": source, "options": ["rbind", "ro"]})

spec = {
    "ociVersion": "1.0.0",
    "root": {"path": root, "readonly": True},
    "hostname": "pgcourier",
    "mounts": mounts,
    "process": {
        "terminal": False,
        "user": {"uid": uid, "gid": gid},
        "args": image["Entrypoint"] + (sys.argv[words + 1 :] or image["Cmd"]),
        "env": image["Env"],
        "cwd": "/",
        "noNewPrivileges": True,
        "capabilities": {},
    },
    "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]},
}
with open(f"{bundle}/config.json", "w", encoding="utf-8") as file:
    json.dump(spec, file, indent=2)
