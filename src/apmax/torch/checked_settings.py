"""Checkpoints that load only with the settings on which the tracked values depend."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn


class CheckedSettings(nn.Module):
    """Mixin of losses with a U: its settings are saved, and others are refused on loading.

    With ``strict=False`` a checkpoint of other settings loads as well; U then stays as it is,
    with a warning, so that a model can be loaded for other data.
    """

    def _settings(self) -> dict[str, Any]:
        """Return the settings on which U depends."""
        raise NotImplementedError

    def get_extra_state(self) -> dict[str, Any]:
        """Return the settings on which U depends, for checkpoints."""
        return self._settings()

    def set_extra_state(self, state: Any) -> None:
        """Do nothing: checkpoints with other settings are refused before this call."""

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        own = self._settings()
        settings = state.get(f"{prefix}_extra_state", own)
        if settings == own:
            super()._load_from_state_dict(state, prefix, *rest)
            return
        # torch does not say here whether loading is strict; it raises for unexpected keys if so
        message = f"the checkpoint was tracked with {settings}, but this loss has {own}"
        unexpected = rest[3]
        unexpected.append(
            f"{prefix}U ({message}: create the loss with the same {', '.join(own)} as the "
            "checkpoint, or load with strict=False to start with an empty U)"
        )
        warnings.warn(f"{message}: its U is not loaded", UserWarning, stacklevel=2)
