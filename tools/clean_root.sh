#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clean_root.sh [COMMAND...]: runs the command on a Debian 12 that has nothing but the project's last commit and what the command
# installs; without one, `./dev run` and `./dev test`, each on a system of its own. Shows what packages.txt lacks. Needs root.
# KEEP=FILE keeps the bare system as an archive, which makes the next start fast.
set -euo pipefail
project=$(git -C "$(dirname "$0")" rev-parse --show-toplevel) archive=${KEEP:-}
[ "$(id -u)" = 0 ] || { echo "clean_root.sh: only root can make a system of its own" >&2; exit 2; }
if [ $# = 0 ]; then
  "$0" ./dev run
  exec "$0" ./dev test
fi
command -v debootstrap >/dev/null || { apt-get update -qq && apt-get install -y -qq debootstrap; }

root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
if [ -s "$archive" ]; then
  tar -C "$root" -xf "$archive"
else
  sources=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
  debootstrap --variant=minbase --include=ca-certificates bookworm "$root" ${sources:+"$sources"}
  [ -z "$archive" ] || tar -C "$root" -cf "$archive" .
fi
git clone -q --no-hardlinks "$project" "$root/project"

# Mounts end with the process that made them. What the system outside says of where packages come from holds inside.
inside='
for p in /proc /dev /etc/apt /etc/pip.conf /etc/ssl/certs /etc/resolv.conf; do
  [ -e "$p" ] || continue
  if [ -d "$p" ]; then mkdir -p "$0$p"; else mkdir -p "$(dirname "$0$p")"; touch "$0$p"; fi
  mount --rbind "$p" "$0$p"
done
exec env -i HOME=/tmp PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
  chroot "$0" /bin/sh -c "apt-get update -qq && cd /project && exec \"\$@\"" sh "$@"'
unshare --mount /bin/sh -c "$inside" "$root" "$@"
