"""A SuperLink, three SuperNodes and our hub as processes on this machine, with TLS."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
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
PATIENCE = 180.0  # seconds
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
        (folder / f"{name}.pem").write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
        )
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
        self._started = 0
        write_tls(folder)
        (folder / "flwr").mkdir(exist_ok=True)
        (folder / "flwr" / "config.toml").write_text(
            '[superlink]\ndefault = "ours"\n[superlink.ours]\n'
            f'address = "{self._address}"\nroot-certificates = "{folder / "ca.pem"}"\n'
        )

    def start_superlink(self) -> None:
        """Start it with TLS, and without the right to install what a run wants."""
        host, port = self._address.split(":")
        kinds = {"ca-certfile": "ca.pem", "certfile": "server.pem", "keyfile": "server.key"}
        files = [f"--ssl-{kind}={self.folder / file}" for kind, file in kinds.items()]
        self.start("superlink", str(BIN / "flower-superlink"), "--host", host, "--port", port,
                   "--disable-runtime-dependency-installation", *files)  # fmt: skip

    def start_supernode(self, name: str, *program: str) -> None:
        """Start ours, or that of another program, with the site's own file."""
        file = self.folder / "sites" / name / "securefedyj.toml"
        self.start(f"node-{name}", *(program or ("-P", "-m", SUPERNODE)),
                   "--superlink", self._address,
                   "--root-certificates", str(self.folder / "ca.pem"),
                   "--port", str(free_port()),
                   "--node-config", f"securefedyj={json.dumps(str(file))}")  # fmt: skip

    def submit(self, app: Path, *options: str) -> tuple[subprocess.Popen[str], float]:
        """Run a folder, and follow its log; with the moment at which it began."""
        command = [sys.executable, str(BIN / "flwr"), "run", str(app), "--stream", *options]
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return run, time.monotonic()
