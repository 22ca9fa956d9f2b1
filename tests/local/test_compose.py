import re
import subprocess

from local.settings import REPOSITORY


def compose() -> list[str]:
    """Docker's plugin where it is there, else Debian's own program."""
    plugin = ["docker", "compose"]
    try:
        subprocess.run([*plugin, "version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return ["docker-compose"]
    return plugin


def test_the_compose_file_is_valid_and_publishes_on_loopback_only() -> None:
    done = subprocess.run(
        [*compose(), "config"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    text = (REPOSITORY / "docker-compose.yml").read_text()
    published = re.findall(r'ports:\n\s+- "([^"]+)"', text)
    assert published == ["127.0.0.1:9094:9094", "127.0.0.1:8080:8080"]
