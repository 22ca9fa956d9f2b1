"""etcd and kube-apiserver on this machine, without a kubelet and without controllers."""

from __future__ import annotations

import json
import secrets
import subprocess
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from local.errors import tail
from local.ports import LOOPBACK, free_ports
from local.processes import end, spawn
from local.waiting import wait_until
from tests.support.kubernetes.helm import Helm
from tests.support.security.private_file import write_private

_START_S = 60.0
_COMMAND_S = 60.0


def run_kubectl(tools: Path, *arguments: str) -> str:
    """The output of a command that needs no cluster. AssertionError with its errors if it fails."""
    done = _run(tools, *arguments)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}"
    return done.stdout


def _run(
    tools: Path, *arguments: str, objects: list[dict[str, Any]] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tools / "kubectl", *arguments],
        input="\n".join(map(json.dumps, objects or [])), env={"HOME": str(tools)},
        capture_output=True, text=True, timeout=_COMMAND_S, check=False,
    )  # fmt: skip


class ApiServer:
    """`tools`: the folder of the programs. `folder`: data, keys and logs."""

    def __init__(self, tools: Path, folder: Path) -> None:
        self._tools, self._folder = tools, folder
        self._kubeconfig = folder / "kubeconfig"
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []
        self.helm = Helm(tools / "helm", folder, self._kubeconfig)

    def start(self) -> None:
        """Returns when it answers. AssertionError with a log if a process ends before."""
        client, peer, port = free_ports(3)
        etcd, own = f"http://{LOOPBACK}:{client}", f"http://{LOOPBACK}:{peer}"
        self._spawn(
            "etcd",
            f"--data-dir={self._folder}/etcd", "--unsafe-no-fsync",
            f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={own}", f"--initial-advertise-peer-urls={own}",
            f"--initial-cluster=default={own}",
        )  # fmt: skip
        token = secrets.token_hex(16)
        tokens = f'{token},tests,tests,"system:masters"\n'
        write_private(self._folder / "tokens.csv", tokens.encode())
        self._write_account_keys()
        self._write_kubeconfig(f"https://{LOOPBACK}:{port}", token)
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers={etcd}", f"--cert-dir={self._folder}/certificates",
            f"--bind-address={LOOPBACK}", f"--secure-port={port}",
            # it never publishes its own address, which only this machine could reach
            f"--advertise-address={LOOPBACK}", "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC",
            f"--token-auth-file={self._folder}/tokens.csv",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self._folder}/accounts.key",
            f"--service-account-key-file={self._folder}/accounts.pub",
            # a controller would create the account `default` of a namespace
            "--disable-admission-plugins=ServiceAccount",
        )  # fmt: skip
        wait_until(self._answers, _START_S, "the API server to be ready", 0.2)

    def stop(self) -> None:
        """Ends the API server, and then etcd."""
        while self._processes:
            end(self._processes.pop()[1], 20.0)

    def kubectl(self, *arguments: str, objects: list[dict[str, Any]] | None = None) -> str:
        """The output and the warnings of a command. AssertionError with its errors if it fails.
        `objects`: what the command reads from its standard input."""
        done = self._kubectl(*arguments, objects=objects)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout + done.stderr

    def refusal(self, *arguments: str, objects: list[dict[str, Any]]) -> str:
        """Why the API server refuses these objects."""
        done = self._kubectl(*arguments, objects=objects)
        assert done.returncode != 0, "the API server accepted the objects"
        return done.stderr

    def get(self, *arguments: str) -> dict[str, Any]:
        """An object."""
        return dict(json.loads(self.kubectl("get", *arguments, "-o", "json")))

    def _kubectl(
        self, *arguments: str, objects: list[dict[str, Any]] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return _run(self._tools, f"--kubeconfig={self._kubeconfig}", *arguments, objects=objects)

    def _answers(self) -> bool:
        for name, process in self._processes:
            log = self._log(name)
            assert process.poll() is None, f"{name} has ended:\n{tail(log.read_text())}"
        return self._kubectl("get", "--raw", "/readyz").returncode == 0

    def _spawn(self, name: str, *options: str) -> None:
        process = spawn([str(self._tools / name), *options], self._log(name), cwd=self._folder)
        self._processes.append((name, process))

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _write_account_keys(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        write_private(self._folder / "accounts.key", private)
        write_private(self._folder / "accounts.pub", public)

    def _write_kubeconfig(self, url: str, token: str) -> None:
        # the server makes its certificate when it starts, and only this machine can reach it
        cluster = {"server": url, "insecure-skip-tls-verify": True}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
            "current-context": "tests",
        }
        write_private(self._kubeconfig, yaml.safe_dump(document).encode())
