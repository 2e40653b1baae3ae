#!/usr/bin/env python3
"""Makes the archive that Blender installs: pack.py ARCHIVE. It has the add-on, and the package dmv beside it."""
import pathlib
import sys
import zipfile

here = pathlib.Path(__file__).resolve().parent
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as archive:
    for source, place in ((here / "dmv_versions", "dmv_versions"), (here.parents[1] / "python" / "dmv", "dmv_versions/dmv")):
        for path in sorted(source.glob("*.py")):
            archive.write(path, f"{place}/{path.name}")
