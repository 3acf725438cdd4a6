# Installs OLD, runs a task, upgrades to NEW, and purges. It runs in a mount namespace of its own, prints one line for each
# fact, and changes nothing of this machine: it sees an overlay of it, whose upper directory is in LAYERS.
set -eu
root=$LAYERS/root
mkdir -p "$LAYERS/upper" "$LAYERS/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$LAYERS/upper,workdir=$LAYERS/work" "$root"
for dir in proc sys dev; do mount --rbind "/$dir" "$root/$dir"; done
# What other users and tests run here must not be seen, nor a tacho that is installed.
for dir in run tmp var/tmp; do mkdir -p "$root/$dir" && mount -t tmpfs -o mode=1777 tmpfs "$root/$dir"; done
rm -rf "$root/var/lib/tacho" "$root/etc/tacho.d" "$root/usr/bin/tacho"
mkdir -p "$root/packages" "$root/run/lock"
mount --bind "$PACKAGES" "$root/packages"
inside="chroot $root /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive"
fact() { printf '%s: %s\n' "$1" "$(shift; "$@" 2>&1 | tr '\n' ' ')"; }
start_agent() {
	$inside tacho agent --config /etc/tacho.d >>"$LAYERS/agent.log" 2>&1 &
	agent=$!
	for _ in $(seq 100); do
		! $inside tacho alloc status >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	cat "$LAYERS/agent.log"
	exit 1
}
version() { $inside tacho version | head -n 1; }
stop_agent() { kill "$agent"; wait "$agent" || true; }
main() { $inside tacho executors ls --format json | sed -n '/"main"/,/"PID"/s/.*"PID": *\([0-9]*\).*/\1/p'; }
alive() { if [ -d "/proc/$pid" ]; then echo yes; else echo no; fi; }
same() { if [ "$(main)" = "$pid" ]; then echo yes; else echo no; fi; }
trap '$inside tacho executors kill --orphans --agent >/dev/null 2>&1 || true; kill "$agent" 2>/dev/null || true' EXIT

$inside dpkg -i /packages/old.deb >/dev/null
fact installed version
fact unit $inside ls /lib/systemd/system/tacho.service
fact man $inside sh -c 'zcat /usr/share/man/man1/tacho-run.1.gz | head -1 | cut -c1-17'
cat >"$root/job.hcl" <<'END'
job "deb" {
  group "g" {
    task "t" {
      driver = "tacho"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}
END
start_agent
$inside tacho job run /job.hcl >/dev/null
pid=$(main)
fact "task runs" alive
$inside dpkg -i /packages/new.deb >/dev/null
fact upgraded version
fact "task runs after the upgrade" alive
fact "removal while the agent runs" $inside sh -c 'dpkg --remove tacho >/tmp/out 2>&1; echo $?; grep -o "stop it first" /tmp/out'
stop_agent
start_agent
fact "same task under the new agent" same
stop_agent
$inside dpkg --purge tacho >/dev/null
fact "task runs after the purge" alive
fact "left in /var/lib" $inside sh -c 'ls -d /var/lib/tacho'
fact "left in /run" $inside sh -c 'ls /run/tacho'
fact "left in /etc" $inside sh -c 'ls -d /etc/tacho.d'
fact "left of the program" $inside sh -c 'ls /usr/bin/tacho'
