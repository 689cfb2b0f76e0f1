"""Table 4 as Markdown and as a figure."""

import pytest

from experiments.deep.report import draw_learning_curves, table_to_markdown

POINTS = [{"epoch": k, "loss": 0.1, "train_ap": 0.2 * k, "validation_ap": 0.1 * k} for k in (1, 2)]


def row_of(method, test_aps, setting, **more):
    lr, gamma, beta0 = setting
    return {
        "method": method,
        "setting": {"lr": lr, "gamma": gamma, "beta0": beta0},
        "seeds": list(range(len(test_aps))),
        "mean": sum(test_aps) / len(test_aps),
        "std": 0.01,
        "test_aps": test_aps,
        "chosen_epochs": [2] * len(test_aps),
        "curves": [POINTS] * len(test_aps),
        "published": None,
        **more,
    }


TABLE = {
    "data": "cifar10",
    "pretraining": [{"seed": 0, "curves": POINTS}, {"seed": 1, "curves": POINTS}],
    "rows": [
        row_of("smoothap", [0.7, 0.8], (1e-4, 0.1, None), published=[0.7365, 0.0088]),
        row_of("exact-head", [0.7, 0.8], (None,) * 3, heads=[{"alpha": None}, {"alpha": 0.1}]),
        row_of("moap", [0.6], (0.1, 0.5, 0.9)),
    ],
    "differences": [
        {
            "method": "adap",
            "baseline": "soap",
            "differences": [0.01, -0.002],
            "errors": [0.003, 0.0031],
            "mean": 0.004,
            "error": 0.006,
        }
    ],
}


def test_rows_show_settings_seeds_and_the_papers_number():
    text = table_to_markdown(TABLE)
    assert "| SmoothAP | 0.7500 ± 0.0100 | 0.7000, 0.8000 | 0.7365 ± 0.0088 |" in text
    assert "η 0.0001, τ 0.1, epoch 2/2 |" in text
    assert "| layer kept/α 0.1 |" in text
    assert "| MOAP | 0.6000 | 0.6000 | – | η 0.1, γ 0.5, β₀ 0.9, epoch 2 |" in text


def test_differences_show_every_seed_and_the_error_of_the_mean():
    line = "| adap − soap | +0.0100 ± 0.0030, −0.0020 ± 0.0031 | +0.0040 ± 0.0060 |"
    assert line in table_to_markdown(TABLE)


def test_pretraining_is_drawn_before_the_methods_and_the_head_has_no_curve():
    panels = draw_learning_curves(TABLE).axes
    assert [axes.get_title(loc="left") or axes.get_title() for axes in panels] == [
        "train AP",
        "validation AP",
    ]
    for axes, column in zip(panels, (0.2, 0.1), strict=True):
        lines = axes.get_lines()
        assert len(lines) == 2 + 2 + 1  # pretraining, SmoothAP and MOAP, by seed
        assert lines[0].get_xdata().tolist() == [-1, 0]
        assert lines[2].get_xdata().tolist() == [1, 2]
        assert lines[2].get_ydata().tolist() == pytest.approx([column, 2 * column])
