#!/usr/bin/env python3
"""Makes coast_data.f90, the land mask that the model carries inside itself.

The build does not run this; it is here so that the mask can be made again or made finer:

    pip install numpy global-land-mask==1.0.0
    python3 make_coast.py

Source: the PyPI package global-land-mask 1.0.0 by Todd Karin (MIT licence), which keeps the sea
cells of GLOBE, the Global Land One-km Base Elevation data base (GLOBE Task Team, 1999, NOAA
National Geophysical Data Center, DOI 10.7289/V52R3PMS; public domain). One degree has 120 GLOBE
cells, so a quarter of a degree is decided by 30 x 30 of them: land where at least half is land.
Lakes count as land, and so do they in GLOBE.

Format: rows from south to north, each row from 0 to 360 degrees east as lengths of runs, sea
first, alternating. A length is written in digits of five bits, least first; each digit is one
character of ASCII 48..111, and 32 is added where another digit follows. The last run of a row is
left out, because it ends where the row ends; so a row is closed by the character '~'.
"""
import os

import global_land_mask
import numpy as np

PER_DEGREE = 4
EDGE = 72  # degrees of latitude, north and south
FOLDER = os.path.dirname(os.path.abspath(__file__))
LINE = 90
PART = 100  # Fortran 2018 allows 255 continuation lines


def land_mask():
    """Land (True) on the coarse grid, row 0 in the south, column 0 at the Greenwich meridian."""
    package = os.path.dirname(global_land_mask.__file__)
    sea = np.load(os.path.join(package, "globe_combined_mask_compressed.npz"))["mask"]
    n = 120 // PER_DEGREE
    share = 1.0 - sea.reshape(sea.shape[0] // n, n, sea.shape[1] // n, n).mean(axis=(1, 3))
    keep = (90 - EDGE) * PER_DEGREE
    land = (share >= 0.5)[keep:-keep]
    return np.roll(land[::-1], 180 * PER_DEGREE, axis=1)  # GLOBE starts at 90 N, 180 W


def digits(length):
    text = ""
    while True:
        length, low = divmod(length, 32)
        text += chr(48 + low + (32 if length else 0))
        if not length:
            return text


def row_text(row):
    text, start, state = "", 0, False
    for i, cell in enumerate(row):
        if cell != state:
            text += digits(i - start)
            start, state = i, cell
    return text + "~"


def main():
    land = land_mask()
    stream = "".join(row_text(row) for row in land)
    assert "'" not in stream and "&" not in stream and "!" not in stream
    lines = [stream[i:i + LINE].ljust(LINE) for i in range(0, len(stream), LINE)]
    parts = [lines[i:i + PART] for i in range(0, len(lines), PART)]
    with open(os.path.join(FOLDER, "coast_data.f90"), "w", encoding="ascii") as out:
        out.write("! Made by make_coast.py, which says from which public data, and the format.\n")
        out.write("module coast_data\n  implicit none\n  public\n")
        out.write(f"  integer, parameter :: mask_nx = {land.shape[1]}, mask_ny = {land.shape[0]}\n")
        out.write(f"  integer, parameter :: mask_line = {LINE}\n")
        for k, part in enumerate(parts, 1):
            out.write(f"  character(len=mask_line), parameter :: part_{k}({len(part)}) = [ &\n")
            out.write(", &\n".join(f"    '{line}'" for line in part))
            out.write("]\n")
        names = ", ".join(f"part_{k}" for k in range(1, len(parts) + 1))
        out.write(f"  character(len=mask_line), parameter :: mask_text({len(lines)}) = [{names}]\n")
        out.write("end module coast_data\n")
    print(f"{len(stream)} characters, {land.mean():.3f} of the cells are land")


if __name__ == "__main__":
    main()
