"""Order of the examples in the gallery, for mkdocs-gallery."""

from __future__ import annotations

from pathlib import Path

EXAMPLES = (
    "fraud",
    "churn_costs",
    "screening",
    "shape_functions",
    "molecules",
    "images",
    "multi_label",
    "lightning_module",
    "out_of_core",
    "dask_cluster",
    "custom_surrogate",
    "compositional",
)


class Order:
    """Tables first, then networks, large data, and objectives of your own."""

    def __call__(self, file: Path) -> int:
        """Return the place of an example."""
        return EXAMPLES.index(file.stem)


conf = {"within_subsection_order": Order}
