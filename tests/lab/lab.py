"""The lab: real ssh machines on this one, for the tests.

Each machine is a network namespace with an address, a hostname, process ids, a /tmp and a home of its own, and a real
sshd as its first process. Several labs can be up at once; nothing is ended that a lab did not start.
Run through the commands beside this file: up, down, ctl, sshd. See README.md here.
"""
import argparse
import contextlib
import fcntl
import json
import os
import re
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
REGISTRY = Path("/run/quarterdeck-lab")
READY_SECONDS = 20
PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"
# name of the account -> shell to look for
ACCOUNTS = {"ada": "bash", "dash": "dash", "zsh": "zsh", "fish": "fish", "csh": "tcsh", "ash": "busybox", "nologin": "nologin"}


class LabError(Exception):
    """Something that the person can read and act on."""


class Missing(LabError):
    """A part of this machine that the lab needs is not there."""


# ---------------------------------------------------------------- small tools


def run(*argv, check=True):
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "PATH": PATH}, stdin=subprocess.DEVNULL)
    if check and done.returncode:
        raise LabError(f"{' '.join(argv)}: {done.stderr.strip() or 'exit ' + str(done.returncode)}")
    return done


def which(name):
    return shutil.which(name, path=PATH)


def need(name, package):
    found = which(name)
    if not found:
        raise Missing(f"the lab needs {name}: apt-get install {package}")
    return found


def wait_for(what, condition, seconds=READY_SECONDS):
    """Polls a condition with a cap and gives back its first true value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise LabError(f"{what} did not happen within {seconds} s")
        time.sleep(0.02)


def spawn(argv, log):
    """Starts a program that outlives us: no terminal, no signal that we inherited as ignored, little environment."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    with open(log, "ab") as out:
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, start_new_session=True, cwd="/")
    return child.pid


def stat_of(pid):
    """Gives the fields of /proc/PID/stat after the name: state, ppid, ... start time at 19; none when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None


def start_time(pid):
    fields = stat_of(pid)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def children(pid):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := stat_of(entry)) and int(fields[1]) == pid:
            found.append(int(entry))
    return found


def end_process(pid, started):
    """Kills a process of ours, known by its start time, and waits until it is gone."""
    if pid and started and start_time(pid) == started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        # A child of ours stays as a zombie until it is waited for; start_time() counts that as gone.
        wait_for(f"the end of process {pid}", lambda: start_time(pid) != started)


def write(path, text, mode=0o600):
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.chmod(mode)
    fresh.rename(path)


@contextlib.contextmanager
def locked(path):
    with open(path, "a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def load(folder):
    try:
        return json.loads((folder / "lab.json").read_text())
    except FileNotFoundError:
        return None


def save(folder, lab):
    write(folder / "lab.json", json.dumps(lab, indent=1) + "\n")


def update(folder, name, **fields):
    """Changes one machine's row; several callers may do so at once."""
    with locked(folder / "lab.lock"):
        lab = load(folder)
        machine_of(lab, name).update(fields)
        save(folder, lab)


def machine_of(lab, name):
    for machine in lab["machines"]:
        if machine["name"] == name:
            return machine
    known = ", ".join(m["name"] for m in lab["machines"])
    raise LabError(f"no machine {name!r} in this lab; it has {known}")


def keygen(path):
    run(need("ssh-keygen", "openssh-client"), "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path))


def listening(address, port):
    """Tells whether an ssh server answers there with its first line."""
    try:
        with socket.create_connection((address, port), timeout=1) as link:
            return link.recv(4) == b"SSH-"
    except OSError:
        return False


# ---------------------------------------------------------------- the files of a lab


def sshd_config(machine, etc, listen):
    """The server's settings; `extra.conf` comes first, and the first value of a key wins."""
    lines = [
        # Of this one key the last value wins.
        "MaxStartups 200:30:400",
        f"Include {etc}/extra.conf",
        f"Port {machine['port']}",
        f"ListenAddress {listen}",
        f"HostKey {etc}/host_ed25519",
        f"AuthorizedKeysFile {etc}/authorized_keys",
        f"PidFile {etc}/sshd.pid",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "StrictModes no",
        "PermitUserEnvironment no",
        "AcceptEnv LANG LC_*",
        "UseDNS no",
        "PrintMotd no",
        "PrintLastLog no",
        "Subsystem sftp internal-sftp",
        "LogLevel VERBOSE",
    ]
    return "\n".join(lines) + "\n"


def write_clients_files(folder, lab):
    """Writes known_hosts, an ssh_config, and a Quarterdeck config that has every machine as an ssh backend.

    NAME-jump is the same machine by way of itself as a jump host, found through the ssh_config.
    """
    hosts, backends, names, jumps = [], [], [], []
    for m in lab["machines"]:
        where = m["address"] if m["port"] == 22 else f"[{m['address']}]:{m['port']}"
        hosts.append(f"{where} {m['host_key']}\n")
        backends.append(
            f"    {m['name']}:\n      type: ssh\n      host: {m['address']}\n      port: {m['port']}\n      user: {m['user']}\n"
            f"      key: {m['key']}\n      known_hosts: {m['known_hosts']}\n      host_key: strict\n"
        )
        jumps.append(f"    {m['name']}-jump:\n      type: ssh\n      host: {m['name']}-jump\n      ssh_config: {folder / 'ssh_config'}\n")
        names.append(
            f"Host {m['name']} {m['name']}-jump\n  HostName {m['address']}\n  Port {m['port']}\n  User {m['user']}\n"
            f"  IdentityFile {m['key']}\n  IdentitiesOnly yes\n  UserKnownHostsFile {m['known_hosts']}\n  StrictHostKeyChecking yes\n"
            f"Host {m['name']}-jump\n  ProxyJump {m['name']}\n"
        )
    write(folder / "known_hosts", "".join(hosts))
    write(folder / "ssh_config", "".join(names))
    write(folder / "config.yaml", "ui:\n  leader: ctrl-]\nterminal:\n  default_backend: local\n  backends:\n" + "".join(backends + jumps))


def prepare_etc(etc, folder, machine, inside, listen):
    """Writes what the server needs: its key, its settings, whom it lets in."""
    etc.mkdir(parents=True)
    etc.chmod(0o755)
    keygen(etc / "host_ed25519")
    machine["host_key"] = " ".join((etc / "host_ed25519.pub").read_text().split()[:2])
    write(etc / "authorized_keys", (folder / "id_ed25519.pub").read_text(), 0o644)
    write(etc / "extra.conf", "", 0o644)
    write(etc / "sshd_config", sshd_config(machine, inside, listen), 0o644)


def prepare_accounts(etc, home):
    """Gives the machine accounts with other login shells, where those shells are installed. Returns their names."""
    files = {name: Path(f"/etc/{name}").read_text() for name in ("passwd", "group", "shadow")}
    made = []
    for number, (name, program) in enumerate(ACCOUNTS.items(), 2001):
        shell = which(program)
        taken = any(line.startswith(name + ":") for line in files["passwd"].splitlines())
        if not shell or taken:
            continue
        if program == "busybox":
            # busybox takes the name it is called by; this link is inside the machine
            (etc / "ash").symlink_to(shell)
            shell = "/run/lab/ash"
        files["passwd"] += f"{name}:x:{number}:{number}::/home/{name}:{shell}\n"
        files["group"] += f"{name}:x:{number}:\n"
        files["shadow"] += f"{name}:*:19000:0:99999:7:::\n"
        shutil.copytree("/etc/skel", home / name, symlinks=True)
        for path in [home / name, *(home / name).rglob("*")]:
            os.chown(path, number, number, follow_symlinks=False)
        (home / name).chmod(0o700)
        made.append(name)
    for name, text in files.items():
        write(etc / name, text, 0o640 if name == "shadow" else 0o644)
    return made


# ---------------------------------------------------------------- machines


def check_machine_parts():
    if os.geteuid() != 0:
        raise Missing("the lab's machines need root (network and process namespaces); tests/lab/sshd works without")
    need("sshd", "openssh-server")
    need("ssh", "openssh-client")
    need("ip", "iproute2")
    need("nft", "nftables")
    need("unshare", "util-linux")
    need("mount", "mount")
    need("hostname", "hostname")
    probe = run("unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--mount-proc", "true", check=False)
    if probe.returncode:
        raise Missing(f"the lab's machines need namespaces, which this kernel or container refuses: {probe.stderr.strip()}")


def free_network():
    """Picks a /24 of the range for benchmarks (198.18.0.0/15) that no link and no route here uses."""
    used = run("ip", "-4", "addr").stdout + run("ip", "-4", "route").stdout
    for _ in range(200):
        net = f"198.{random.choice((18, 19))}.{random.randrange(1, 255)}"
        if net + "." not in used:
            return net
    raise LabError("no free network found in 198.18.0.0/15")


def make_link(lab, machine):
    """Makes the network namespace and the cable to it."""
    ns, veth = machine["netns"], machine["link"]
    run("ip", "netns", "add", ns)
    run("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", ns)
    run("ip", "addr", "add", machine["gateway"] + "/30", "dev", veth)
    run("ip", "link", "set", veth, "up")
    run("ip", "-n", ns, "addr", "add", machine["address"] + "/30", "dev", "eth0")
    run("ip", "-n", ns, "link", "set", "lo", "up")
    run("ip", "-n", ns, "link", "set", "eth0", "up")
    run("ip", "-n", ns, "route", "add", "default", "via", machine["gateway"])


def boot(folder, machine):
    """Starts the machine's first process in its namespaces and waits for its ssh server. Returns the changed fields."""
    here = folder / machine["name"]
    write(here / "etc/boot_id", str(uuid.uuid4()) + "\n", 0o444)
    unshare = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
    outer = spawn(
        [which("ip"), "netns", "exec", machine["netns"], *unshare, "/bin/sh", str(HERE / "machine"), machine["name"], str(here), which("sshd")],
        here / "boot.log",
    )
    fields = {"outer": outer, "outer_start": start_time(outer)}

    def up():
        if start_time(outer) is None:
            said = (here / "boot.log").read_text(errors="replace").strip()
            raise LabError(f"{machine['name']} did not come up: {said or 'no reason given'}")
        return listening(machine["address"], machine["port"])

    wait_for(f"{machine['name']}: an answer of its ssh server", up)
    fields["pid"] = children(outer)[0]
    fields["pid_start"] = start_time(fields["pid"])
    return fields


def shut(machine):
    """Ends every process of the machine: the first process of a pid namespace takes the others with it."""
    end_process(machine.get("pid"), machine.get("pid_start"))
    end_process(machine.get("outer"), machine.get("outer_start"))


def empty(path):
    for entry in path.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def up(folder, count, owner):
    check_machine_parts()
    sweep()
    folder.mkdir(parents=True, exist_ok=True)
    if load(folder):
        raise LabError(f"{folder} holds a lab already: tests/lab/down {folder}")
    REGISTRY.mkdir(mode=0o700, exist_ok=True)
    keygen(folder / "id_ed25519")
    with locked(REGISTRY / "lock"):
        lab_id = next(i for i in iter(lambda: f"{random.randrange(16**4):04x}", None) if not (REGISTRY / i).exists())
        lab = {"id": lab_id, "kind": "machines", "network": free_network(), "folder": str(folder), "machines": []}
        for number in range(1, count + 1):
            net = f"{lab['network']}."
            lab["machines"].append({
                "name": f"m{number}", "address": net + str(4 * number + 2), "gateway": net + str(4 * number + 1), "port": 22, "user": "root",
                "key": str(folder / "id_ed25519"), "known_hosts": str(folder / "known_hosts"),
                "netns": f"qd-{lab_id}-m{number}", "link": f"qd{lab_id}m{number}",
            })
        # Written down before anything is made, so that `down` finds whatever a crash leaves behind.
        save(folder, lab)
        record = {"folder": str(folder), "owner": owner, "owner_start": start_time(owner) if owner else None}
        write(REGISTRY / lab_id, json.dumps(record))
        # With the cable down, packets for the machines must not leave by the default route.
        run("ip", "route", "add", "unreachable", f"{lab['network']}.0/24", "metric", "4000000000")
    for machine in lab["machines"]:
        here = folder / machine["name"]
        for part in ("tmp", "vartmp", "root", "home"):
            (here / part).mkdir(parents=True)
        for part in ("tmp", "vartmp"):
            (here / part).chmod(0o1777)
        for entry in Path("/etc/skel").iterdir():
            shutil.copy(entry, here / "root") if entry.is_file() else shutil.copytree(entry, here / "root" / entry.name)
        (here / "root").chmod(0o700)
        prepare_etc(here / "etc", folder, machine, "/run/lab", machine["address"])
        machine["accounts"] = prepare_accounts(here / "etc", here / "home")
        make_link(lab, machine)
        machine.update(boot(folder, machine))
        save(folder, lab)
    write_clients_files(folder, lab)
    names = ", ".join(f"{m['name']} {m['address']}" for m in lab["machines"])
    print(f"lab {lab_id} is up: {names}")


def sweep():
    """Takes down labs whose owner is gone: a test run that was killed could not do so itself."""
    if not REGISTRY.is_dir():
        return
    for entry in REGISTRY.iterdir():
        with contextlib.suppress(OSError, ValueError):
            record = json.loads(entry.read_text())
            if record["owner"] and start_time(record["owner"]) != record["owner_start"]:
                down(Path(record["folder"]), lab_id=entry.name)


def down(folder, lab_id=None):
    """Takes a lab down, whole or half made; does nothing where there is none."""
    lab = load(folder)
    if lab is None and lab_id is None:
        return
    for machine in (lab or {}).get("machines", []):
        end_delay(folder, machine)
        shut(machine)
    lab_id = lab["id"] if lab else lab_id
    if lab is None or lab["kind"] == "machines":
        for line in run("ip", "netns", "list").stdout.splitlines():
            name = line.split()[0] if line.split() else ""
            if name.startswith(f"qd-{lab_id}-"):
                for pid in run("ip", "netns", "pids", name, check=False).stdout.split():
                    end_process(int(pid), start_time(int(pid)))
                run("ip", "netns", "del", name, check=False)
        for link in os.listdir("/sys/class/net"):
            if link.startswith(f"qd{lab_id}m"):
                run("ip", "link", "del", link, check=False)
        run("nft", "delete", "table", "ip", f"qd_{lab_id}", check=False)
        if lab:
            run("ip", "route", "del", "unreachable", f"{lab['network']}.0/24", check=False)
    for machine in (lab or {}).get("machines", []):
        shutil.rmtree(folder / machine["name"], ignore_errors=True)
    for name in ("id_ed25519", "id_ed25519.pub", "known_hosts", "ssh_config", "config.yaml", "lab.json", "lab.lock"):
        (folder / name).unlink(missing_ok=True)
    if lab_id:
        (REGISTRY / lab_id).unlink(missing_ok=True)


# ---------------------------------------------------------------- faults


def cut(folder, lab, machine, _arg):
    """Pulls the cable."""
    if machine.get("delay"):
        raise LabError("the link is slow now, and packets take another way: `fast` first")
    run("ip", "link", "set", machine["link"], "down")


def mend(folder, lab, machine, _arg):
    run("ip", "link", "set", machine["link"], "up")


def blackhole(folder, lab, machine, _arg):
    """Drops every packet both ways without a word: neither side's kernel learns of it."""
    table = f"qd_{lab['id']}"
    chain = machine["name"]
    hook = "{ type filter hook prerouting priority -300; }"
    run("nft", "add", "table", "ip", table)
    run("nft", "add", "chain", "ip", table, chain, hook)
    run("nft", "flush", "chain", "ip", table, chain)
    run("nft", "add", "rule", "ip", table, chain, "ip", "saddr", machine["address"], "drop")
    inside = ["ip", "netns", "exec", machine["netns"], "nft"]
    run(*inside, "add", "table", "ip", "hole")
    run(*inside, "add", "chain", "ip", "hole", "in", hook)
    run(*inside, "flush", "chain", "ip", "hole", "in")
    run(*inside, "add", "rule", "ip", "hole", "in", "ip", "saddr", machine["gateway"], "drop")


def unblackhole(folder, lab, machine, _arg):
    run("ip", "netns", "exec", machine["netns"], "nft", "delete", "table", "ip", "hole", check=False)
    run("nft", "delete", "chain", "ip", f"qd_{lab['id']}", machine["name"], check=False)


def off(folder, lab, machine, _arg):
    """Ends every process; the address stays and refuses connections."""
    shut(machine)
    update(folder, machine["name"], pid=None, outer=None)


def on(folder, lab, machine, _arg):
    if machine.get("pid") and start_time(machine["pid"]) == machine.get("pid_start"):
        raise LabError(f"{machine['name']} is on already")
    update(folder, machine["name"], **boot(folder, machine))


def reboot(folder, lab, machine, _arg):
    """Ends every process, empties what a reboot empties, and starts again with another boot id."""
    shut(machine)
    here = folder / machine["name"]
    empty(here / "tmp")
    update(folder, machine["name"], **boot(folder, machine))


def kill_sessions(folder, lab, machine, _arg):
    """Kills the server's processes of every connection. What they started lives on, as on a real machine."""
    for child in children(machine["pid"]):
        for pid in [child, *children(child)]:
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
                    end_process(pid, start_time(pid))


def slow(folder, lab, machine, arg):
    """Makes every round trip this many milliseconds longer (`50`), on a line of so many Mbit/s (`50/20`), for open connections too."""
    if not arg or not re.fullmatch(r"[0-9]+(/[0-9]+)?", arg):
        raise LabError("slow needs a number of milliseconds, or MS/MBIT")
    if not Path("/dev/net/tun").exists():
        raise Missing("slow links need /dev/net/tun")
    fast(folder, lab, machine, None)
    ready = folder / machine["name"] / "delay.ready"
    ready.unlink(missing_ok=True)
    pid = spawn(
        [sys.executable, str(HERE / "delay.py"), machine["netns"], machine["link"] + "d", machine["gateway"], machine["address"], arg, str(ready)],
        folder / machine["name"] / "delay.log",
    )
    update(folder, machine["name"], delay=pid, delay_start=start_time(pid))

    def settled():
        if start_time(pid) is None:
            raise LabError((folder / machine["name"] / "delay.log").read_text().strip() or "the delay ended at once")
        return ready.exists()

    wait_for("the slow link", settled)


def end_delay(folder, machine):
    # Its two devices and their routes go with it; the cable's own routes are there still.
    end_process(machine.get("delay"), machine.get("delay_start"))


def fast(folder, lab, machine, _arg):
    end_delay(folder, machine)
    update(folder, machine["name"], delay=None, delay_start=None)


def set_option(folder, lab, machine, arg):
    """Puts a line before the server's settings (`set "MaxSessions 1"`) for connections made from now on."""
    if not arg:
        raise LabError('set needs a line of sshd_config, as "MaxSessions 1"')
    change_options(folder, machine, lambda old: arg + "\n" + old)


def unset_options(folder, lab, machine, _arg):
    change_options(folder, machine, lambda old: "")


def change_options(folder, machine, change):
    here = folder / machine["name"] / "etc"
    extra = here / "extra.conf"
    # In place: the machine sees this very file.
    text = change(extra.read_text())
    extra.write_text(text)
    log = here / "sshd.log"
    size = log.stat().st_size
    os.kill(machine["pid"], signal.SIGHUP)
    wait_for("the server's restart", lambda: b"Server listening" in log.read_bytes()[size:] and listening(machine["address"], machine["port"]))


def repair(folder, lab, machine, _arg):
    """Takes back every fault, whichever were made."""
    unblackhole(folder, lab, machine, None)
    fast(folder, lab, machine, None)
    mend(folder, lab, machine, None)
    alive = machine.get("pid") and start_time(machine["pid"]) == machine.get("pid_start")
    extra = folder / machine["name"] / "etc/extra.conf"
    if not alive:
        extra.write_text("")
        on(folder, lab, machine, None)
    elif extra.read_text():
        unset_options(folder, lab, machine, None)


VERBS = {
    "cut": cut, "mend": mend, "blackhole": blackhole, "unblackhole": unblackhole, "off": off, "on": on, "reboot": reboot,
    "kill-sessions": kill_sessions, "slow": slow, "fast": fast, "set": set_option, "unset": unset_options, "repair": repair,
}
WITHOUT_ROOT = {"kill-sessions", "set", "unset"}


def ctl(folder, name, verb, arg):
    lab = load(folder)
    if lab is None:
        raise LabError(f"no lab in {folder}")
    machine = machine_of(lab, name)
    if lab["kind"] == "sshd" and verb not in WITHOUT_ROOT:
        raise LabError(f"{verb} needs a lab of machines (tests/lab/up), which needs root")
    VERBS[verb](folder, lab, machine, arg)


# ---------------------------------------------------------------- one plain server


def plain_sshd(folder):
    """Starts one sshd on a free loopback port as this account."""
    sshd = need("sshd", "openssh-server")
    folder.mkdir(parents=True, exist_ok=True)
    if load(folder):
        raise LabError(f"{folder} holds a lab already: tests/lab/down {folder}")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    keygen(folder / "id_ed25519")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    user = run("id", "-un").stdout.strip()
    machine = {"name": "here", "address": "127.0.0.1", "port": port, "user": user, "accounts": [],
               "key": str(folder / "id_ed25519"), "known_hosts": str(folder / "known_hosts")}
    lab = {"id": None, "kind": "sshd", "folder": str(folder), "machines": [machine]}
    etc = folder / "here/etc"
    prepare_etc(etc, folder, machine, str(etc), "127.0.0.1")
    pid = spawn([sshd, "-D", "-f", str(etc / "sshd_config"), "-E", str(etc / "sshd.log")], folder / "here/boot.log")
    machine.update(pid=pid, pid_start=start_time(pid))
    save(folder, lab)

    def up():
        if start_time(pid) is None:
            said = (folder / "here/boot.log").read_text() + (etc / "sshd.log").read_text()
            raise LabError(f"sshd did not come up: {said.strip()}")
        return listening("127.0.0.1", port)

    wait_for("an answer of sshd", up)
    write_clients_files(folder, lab)
    print(f"sshd is up: 127.0.0.1:{port}")


def main():
    parser = argparse.ArgumentParser(prog="tests/lab")
    sub = parser.add_subparsers(dest="command", required=True)
    one = sub.add_parser("up", help="bring N machines up")
    one.add_argument("--while", dest="owner", type=int, help="a later `up` takes this lab down when this process is gone")
    one.add_argument("folder", type=Path)
    one.add_argument("count", type=int, nargs="?", default=3)
    one = sub.add_parser("down", help="take a lab down")
    one.add_argument("folder", type=Path)
    one = sub.add_parser("ctl", help="do something to a machine")
    one.add_argument("folder", type=Path)
    one.add_argument("machine")
    one.add_argument("verb", choices=sorted(VERBS))
    one.add_argument("argument", nargs="?")
    one = sub.add_parser("sshd", help="one plain sshd on loopback, without root")
    one.add_argument("folder", type=Path)
    args = parser.parse_args()
    folder = args.folder.resolve()
    try:
        if args.command == "up":
            if not 1 <= args.count <= 60:
                raise LabError("a lab has 1 to 60 machines")
            try:
                up(folder, args.count, args.owner)
            except BaseException:
                down(folder)
                raise
        elif args.command == "down":
            down(folder)
        elif args.command == "ctl":
            ctl(folder, args.machine, args.verb, args.argument)
        else:
            try:
                plain_sshd(folder)
            except BaseException:
                down(folder)
                raise
    except Missing as error:
        print(f"lab: {error}", file=sys.stderr)
        return 3
    except (LabError, OSError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
