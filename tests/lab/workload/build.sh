#!/bin/sh
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Writes the file system of the image for the recipes to standard output, as a tar archive: Python and a few tools of this Debian machine, and the
# program workload.py, linked to each name for which it stands.
#   build.sh WORKLOAD NAME…
set -eu
workload=$1
shift
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/usr/bin" "$tree/usr/lib" "$tree/usr/lib64" "$tree/usr/local/bin" "$tree/tmp" "$tree/proc" "$tree/sys" "$tree/dev" "$tree/etc" "$tree/root"
for name in bin lib lib64; do ln -s "usr/$name" "$tree/$name"; done

python=$(readlink -f "$(PATH=/usr/bin:/bin command -v python3)")
version=$(basename "$python")
cp "$python" "$tree/usr/bin/$version"
ln -s "$version" "$tree/usr/bin/python3"
mkdir "$tree/usr/lib/$version"
tar -C "/usr/lib/$version" --exclude=__pycache__ --exclude=test --exclude=idlelib --exclude=pydoc_data --exclude=ensurepip --exclude=config-* -c . |
    tar -C "$tree/usr/lib/$version" -x
for tool in sh bash cat mv ls seq sleep env mkdir grep; do
    path=$(PATH=/usr/bin:/bin command -v "$tool")
    [ -x "$path" ] || path=/usr/bin/$tool # a builtin of this shell
    cp -L "$path" "$tree/usr/bin/$tool"
done
# The libraries of these programs and of Python's modules. A module whose library is missing is not needed.
ldd "$tree"/usr/bin/* "/usr/lib/$version"/lib-dynload/*.so 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^\t\(\/[^ ]*\) .*/\1/p' | sort -u |
    while read -r library; do
        mkdir -p "$tree$(dirname "$library")"
        cp -L "$library" "$tree$library"
    done

cp "$workload" "$tree/usr/local/bin/workload.py"
chmod 755 "$tree/usr/local/bin/workload.py"
for name in "$@"; do
    printf '#!/bin/sh\nexec /usr/bin/python3 -c '"'"'import sys; sys.path.insert(0, "/usr/local/bin"); import workload; workload.main("%s", sys.argv[1:])'"'"' "$@"\n' \
        "$name" >"$tree/usr/local/bin/$name"
    chmod 755 "$tree/usr/local/bin/$name"
done
echo 'exec webui' >"$tree/start.sh"
mkdir -p "$tree/usr/lib/python3/dist-packages"
cat >"$tree/usr/lib/python3/dist-packages/huggingface_hub.py" <<'END'
import os
from pathlib import Path


def snapshot_download(model):
    """Stands for a download."""
    folder = Path(os.environ["HF_HUB_CACHE"], model)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    print("lab: downloaded", model, flush=True)
END
tar -C "$tree" -c .
