#!/usr/bin/env python3
"""Fails on an #include that points up or sideways in the layer picture.

Usage: check_layers.py ROOT        check ROOT/src/lockstep and ROOT/apps
       check_layers.py --self-test prove that a bad include is found
"""
import re
import sys
import tempfile
from pathlib import Path

# From the bottom up; neighbours on one line do not know each other.
LAYERS = [
    ["core"],
    ["profile"],
    ["comm"],
    ["data"],
    ["parallel", "ml"],
    ["models"],
    ["train"],
    ["tune", "plan"],
    ["service"],
]
LEVEL = {folder: level for level, line in enumerate(LAYERS) for folder in line}
# Headers directly in src/lockstep gather what lies in the folders, for users and apps.
TOP = len(LAYERS)
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(lockstep/[^>]+)>)')
SUFFIXES = {".h", ".hpp", ".inc", ".cpp", ".cc", ".c", ".cu", ".cuh", ".in"}


def level_of(folder):
    return TOP if folder == "" else LEVEL.get(folder)


def problem(folder, header):
    """Why a file in src/lockstep/FOLDER (or apps) may not include HEADER, or None."""
    if header.startswith("../") or "/../" in header:
        return "a relative path hides the layer: write lockstep/FOLDER/FILE"
    if not header.startswith("lockstep/"):
        return None
    parts = header.split("/")
    target = parts[1] if len(parts) > 2 else ""
    if level_of(target) is None:
        return f"'{target}' is not in the layer picture"
    if folder == "apps" or target == folder:
        return None
    own, other = level_of(folder), level_of(target)
    if own is None:
        return f"'{folder}' is not in the layer picture"
    if other < own:
        return None
    return f"{folder} includes {'its neighbour' if own == other else 'upwards,'} {target or 'src/lockstep'}"


def check(root):
    """Complaints about every file, and how many includes were read."""
    complaints, count = [], 0
    files = [(path, path.relative_to(root / "src/lockstep").parts) for path in (root / "src/lockstep").rglob("*")]
    files += [(path, ("apps", path.name)) for path in (root / "apps").rglob("*")]
    for path, parts in sorted(files):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        folder = parts[0] if len(parts) > 1 else ""
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            count += 1
            why = problem(folder, found.group(1) or found.group(2))
            if why:
                complaints.append(f"{path.relative_to(root)}:{number}: {line.strip()}: {why}")
    return complaints, count


def self_test():
    good = {
        "src/lockstep/comm/a.cpp": '#include "lockstep/core/error.h"\n#include "lockstep/comm/a.h"\n',
        "src/lockstep/train/deep/b.h": '#  include "lockstep/models/gpt.h"\n#include <vector>\n',
        "src/lockstep/lockstep.h": '#include "lockstep/service/jobs.h"\n',
        "apps/main.cpp": '#include "lockstep/lockstep.h"\n#include "commands.h"\n#include "lockstep/core/log.h"\n',
    }
    bad = {
        "src/lockstep/core/up.cpp": '#include "lockstep/comm/a.h"\n',
        "src/lockstep/ml/side.h": '#include "lockstep/parallel/mesh.h"\n',
        "src/lockstep/plan/side.cpp": '#include <lockstep/tune/search.h>\n',
        "src/lockstep/data/relative.cpp": '#include "../train/trainer.h"\n',
        "src/lockstep/comm/unknown.cpp": '#include "lockstep/misc/a.h"\n',
        "src/lockstep/extra/unknown.cpp": '#include "lockstep/core/error.h"\n',
        "src/lockstep/service/all.cpp": '#include "lockstep/lockstep.h"\n',
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {**good, **bad}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        complaints, _ = check(root)
        accused = {complaint.split(":")[0] for complaint in complaints}
    if accused != set(bad) or len(complaints) != len(bad):
        print("self test failed: expected complaints about", sorted(bad), "got", complaints)
        return 1
    print(f"self test: all {len(bad)} bad includes found, no good one accused")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    complaints, count = check(Path(sys.argv[1]).resolve())
    print("\n".join(complaints) or f"layers: {count} includes, none points up or sideways")
    # Nothing read means a wrong folder, not a clean tree.
    return 1 if complaints or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
