"use strict";
// Follows the slider: counts come from the page's data, shares are worked out here.
(() => {
  const $ = (id) => document.getElementById(id);
  const models = JSON.parse($("data").textContent);
  const slider = $("slider");
  const choice = $("model");
  const jumps = document.querySelectorAll("[data-target]");
  const plot = document.querySelector("#curves .plot");
  const QUIET_MS = 400; // a screen reader is told once the slider rests
  let pending = 0;

  const count = (value) => value.toLocaleString("en-US");
  const significant = (value) => String(Number(value.toPrecision(2)));
  const share = (value) => {
    const percent = 100 * value;
    const shown = percent === 0 || percent >= 1 ? percent.toFixed(1) : significant(percent);
    return shown + "\u202f%";
  };
  const perThousand = (rate) => {
    const value = 1000 * rate;
    if (value === 0 || value >= 100) return value.toFixed(0);
    return value >= 1 ? value.toFixed(1) : significant(value);
  };
  const current = () => models[Number(choice.value)];

  function show() {
    const model = current();
    const k = Number(slider.value);
    const right = model.true[k];
    const alerts = model.all[k];
    const precision = right / alerts;
    const recall = right / model.positives;
    const rate = alerts / model.examples;
    const wrong = alerts - right;
    const texts = {
      threshold: "≥ " + model.thresholds[k],
      precision: share(precision),
      recall: share(recall),
      rate: perThousand(rate),
      tp: count(right),
      fn: count(model.positives - right),
      fp: count(wrong),
      tn: count(model.examples - model.positives - wrong),
    };
    for (const [id, text] of Object.entries(texts)) $(id).textContent = text;
    const marker = $("marker");
    marker.style.left = 100 * recall + "%";
    marker.style.bottom = 100 * precision + "%";
    marker.className = "marker s" + model.series;
    jumps.forEach((button, target) => {
      button.setAttribute("aria-pressed", String(model.targets[target] === k));
    });
    slider.setAttribute("aria-valuetext", "threshold " + model.thresholds[k]);
    clearTimeout(pending);
    pending = setTimeout(() => {
      $("status").textContent =
        `Precision ${texts.precision}, recall ${texts.recall}, ` +
        `${texts.rate} alerts per 1,000 examples.`;
    }, QUIET_MS);
  }

  function choose() {
    const model = current();
    slider.max = String(model.thresholds.length - 1);
    slider.disabled = model.thresholds.length === 1;
    slider.value = String(model.start);
    jumps.forEach((button, target) => {
      const reachable = model.targets[target] !== null;
      button.disabled = !reachable;
      button.title = reachable ? "" : "not reachable";
    });
    show();
  }

  function goToRecall(wanted) {
    const model = current();
    let best = 0;
    model.true.forEach((right, k) => {
      const gap = Math.abs(right / model.positives - wanted);
      // Of equal recall, the higher threshold raises fewer false alerts.
      if (gap <= Math.abs(model.true[best] / model.positives - wanted)) best = k;
    });
    slider.value = String(best);
    show();
  }

  slider.addEventListener("input", show);
  choice.addEventListener("change", choose);
  jumps.forEach((button, target) =>
    button.addEventListener("click", () => {
      slider.value = String(current().targets[target]);
      show();
    }),
  );
  plot.addEventListener("pointerdown", (event) => {
    const box = plot.getBoundingClientRect();
    goToRecall((event.clientX - box.left) / box.width);
  });

  $("model-field").hidden = models.length === 1;
  $("panel").hidden = false;
  $("marker").hidden = false;
  choose();
})();
