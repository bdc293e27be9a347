"""What cards can do at most, by name, and what a run of the engine asked of one."""

# Float32 without tensor cores and float64 with them, in Tflop/s, as data sheets say.
_PEAKS = {
    "H100 PCIe": (51.2, 51.2),
    "H100": (66.9, 66.9),
    "H200": (66.9, 66.9),
    "B200": (75.0, 37.0),
    "A100": (19.5, 19.5),
    "V100": (15.7, 7.8),
    "L40S": (91.6, 1.4),
    "A10G": (31.2, 0.49),
    "L4": (30.3, 0.47),
    "T4": (8.1, 0.25),
    "RTX 4090": (82.6, 1.3),
    "RTX 3090": (35.6, 0.56),
    "RTX 3080": (29.8, 0.47),
}


def peak_tflops(device_kind: str, bits: int) -> float | None:
    """Tflop/s of a card in 32 or 64 bits; None if it is not known here."""
    for name, peaks in _PEAKS.items():
        if name in device_kind:
            return peaks[bits == 64]
    return None


def pairs_screened(m: int, searches: int) -> float:
    """Pairs of clusters that were compared, about.

    The first m searches see m clusters each, the others m/2 on average, since those
    alive fall evenly from m to 1.
    """
    return m * m + (searches - m) * m / 2
