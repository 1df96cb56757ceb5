"""A SuperLink, three SuperNodes and our hub as processes on this machine, with TLS."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from securefedyj.network.local import Processes, free_port

ROOT = Path(__file__).parents[3]
PATIENCE = 300.0  # seconds
ANSI = re.compile(r"\x1b\[[0-9;]*m")
BIN = Path(sys.executable).parent
SUPERNODE = "securefedyj.integrations.flower.supernode"


def set_environment(folder: Path) -> None:
    """Of this process and all that it starts: nothing outside of the folder, no telemetry."""
    own = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ |= {
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(filter(None, own)),
    }


def write_tls(folder: Path) -> None:
    """ca.pem, and server.pem and server.key for 127.0.0.1."""
    now = datetime.datetime.now(datetime.UTC)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("ca", "server")}
    names = {name: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in keys}
    for name in keys:
        address = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(names[name])
            .issuer_name(names["ca"])
            .public_key(keys[name].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(name == "ca", None), critical=True)
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .sign(keys["ca"], hashes.SHA256())
        )
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        keys["server"].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


class Federation(Processes):
    """The hub of a prepared folder, Flower's processes, and runs of a folder for `flwr run`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._address = f"127.0.0.1:{free_port()}"
        write_tls(folder)
        (folder / "flwr").mkdir(exist_ok=True)
        (folder / "flwr" / "config.toml").write_text(
            '[superlink]\ndefault = "ours"\n[superlink.ours]\n'
            f'address = "{self._address}"\nroot-certificates = "{folder / "ca.pem"}"\n'
        )

    def __enter__(self) -> Federation:
        return self

    def start_superlink(self) -> None:
        """Start it with TLS, and without the right to install what a run wants."""
        host, port = self._address.split(":")
        kinds = {"ca-certfile": "ca.pem", "certfile": "server.pem", "keyfile": "server.key"}
        files = [f"--ssl-{kind}={self.folder / file}" for kind, file in kinds.items()]
        self.start("superlink", str(BIN / "flower-superlink"), "--host", host, "--port", port,
                   "--enable-supernode-auth",
                   "--disable-runtime-dependency-installation", *files)  # fmt: skip
        assert self._shows("superlink", "Uvicorn running on"), self.log("superlink")

    def register(self, name: str) -> None:
        """Make the key by which Flower knows a site, and tell the SuperLink of it."""
        key = ec.generate_private_key(ec.SECP384R1())
        form = serialization.PrivateFormat.OpenSSH
        private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        public = key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        (self.folder / f"{name}.flower").write_bytes(private)
        (self.folder / f"{name}.flower.pub").write_bytes(public)
        flwr("supernode", "register", str(self.folder / f"{name}.flower.pub"), "--name", name)

    def start_supernode(self, name: str, *program: str) -> None:
        """Start ours, or that of another program, with the site's own file.

        Where one was killed, Flower refuses the next for a minute: it is started again and again.
        """
        file = self.folder / "sites" / name / "securefedyj.toml"
        options = {
            "superlink": self._address,
            "root-certificates": self.folder / "ca.pem",
            "auth-supernode-private-key": self.folder / f"{name}.flower",
            "port": free_port(),
            "node-config": f"securefedyj={json.dumps(str(file))}",
        }
        given = [f"--{option}={value}" for option, value in options.items()]
        process, deadline = f"node-{name}", time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.start(process, *(program or ("-P", "-m", SUPERNODE)), *given)
            if self._shows(process, "SuperNode ID"):
                return
        raise TimeoutError(f"{name} is not let in: {self.log(process)}")

    def _shows(self, name: str, words: str) -> bool:
        """Whether a process that was just started comes to print something before it ends."""
        before = self.log(name).count(words)
        while (count := self.log(name).count(words)) == before:
            if self.running[name].poll() is not None:
                return False
            time.sleep(0.1)
        return count > before

    def submit(self, app: Path, *options: str) -> subprocess.Popen[str]:
        """Submit a run, and follow its log."""
        command = [str(BIN / "flwr"), "run", str(app), "--stream", *options]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, app: Path, *options: str) -> str:
        """Submit a run, and wait for its end; return its log."""
        printed, _ = self.submit(app, *options).communicate(timeout=PATIENCE)
        return ANSI.sub("", printed)

    def stop(self, run: subprocess.Popen[str]) -> None:
        """End a run as an administrator does."""
        assert run.stdout is not None
        number = next(word for line in run.stdout for word in line.split() if word.isdecimal())
        flwr("stop", number)
        run.communicate(timeout=PATIENCE)

    def kill_site(self, name: str) -> None:
        """End a SuperNode and all that it has started, without a chance to say anything."""
        node = self.running[f"node-{name}"].pid
        for process in (*descendants(node), node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.kill(f"node-{name}")

    def __exit__(self, *_: object) -> None:
        children = [each for one in self.running.values() for each in descendants(one.pid)]
        super().__exit__()
        for process in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def flwr(*arguments: str) -> None:
    """Flower's command; what it prints is shown only if it fails."""
    done = subprocess.run([str(BIN / "flwr"), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"flwr {' '.join(arguments)}: {done.stdout}{done.stderr}")


def descendants(process: int) -> list[int]:
    """The processes that one has started, and those that they have started."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found
