"use strict";
// Follows the sliders: counts come from the page's data, shares and costs are worked out here.
(() => {
  const $ = (id) => document.getElementById(id);
  const { models, costs, cost: chosen, best, start } = JSON.parse($("data").textContent);
  const slider = $("slider");
  const cost = $("cost");
  const choice = $("model");
  const jumps = document.querySelectorAll("[data-target]");
  const plot = document.querySelector("#curves .plot");
  const QUIET_MS = 400; // a screen reader is told once the slider rests
  let pending = 0;

  const count = (value) => Math.round(value).toLocaleString("en-US"); // weights need not be whole
  const shownRatio = (value) => (Number.isInteger(value) ? count(value) : significant(value));
  const significant = (value) => String(Number(value.toPrecision(2)));
  const share = (value) => {
    const percent = 100 * value;
    const shown = percent === 0 || percent >= 1 ? percent.toFixed(1) : significant(percent);
    return shown + "\u202f%";
  };
  const perThousand = (rate) => {
    const value = 1000 * rate;
    if (value === 0 || value >= 100) return count(value);
    return value >= 1 ? value.toFixed(1) : significant(value);
  };
  const current = () => models[Number(choice.value)];
  const ratio = () => costs[Number(cost.value)];
  // In false alarms: each one costs 1, each missed positive `ratio`.
  const costAt = (model, k) =>
    model.all[k] - model.true[k] + ratio() * (model.positives - model.true[k]);

  function cheapest(model) {
    let at = 0;
    // Of equal costs, the higher threshold raises fewer alerts.
    model.all.forEach((_, k) => {
      if (costAt(model, k) <= costAt(model, at)) at = k;
    });
    return at;
  }

  function describeCost(model, k) {
    const at = cheapest(model);
    if (costAt(model, at) >= ratio() * model.positives) return "no alert at all is cheapest";
    const more = (costAt(model, k) - costAt(model, at)) / model.rows;
    if (1000 * more < 1e-6) return "this is the cheapest threshold";
    return `${perThousand(more)} more per 1,000 rows than at ${model.thresholds[at]}, the cheapest`;
  }

  function show() {
    const model = current();
    const k = Number(slider.value);
    const right = model.true[k];
    const alerts = model.all[k];
    const precision = right / alerts;
    const recall = right / model.positives;
    const wrong = alerts - right;
    const threshold = model.thresholds[k];
    const missCost = shownRatio(ratio()) + (ratio() === 1 ? " false alarm" : " false alarms");
    const texts = {
      threshold,
      precision: share(precision),
      recall: share(recall),
      rate: perThousand(alerts / model.rows),
      expected: perThousand(costAt(model, k) / model.rows),
      ratio: missCost,
      cheapest: describeCost(model, k),
      option: `apmax predict MODEL DATA --threshold ${threshold}`,
      tp: count(right),
      fn: count(model.positives - right),
      fp: count(wrong),
      tn: count(model.rows - model.positives - wrong),
    };
    for (const [id, text] of Object.entries(texts)) $(id).textContent = text;
    const marker = $("marker");
    marker.style.left = 100 * recall + "%";
    marker.style.bottom = 100 * precision + "%";
    jumps.forEach((button, target) => {
      button.setAttribute("aria-pressed", String(model.targets[target] === k));
    });
    slider.setAttribute("aria-valuetext", "probability at least " + threshold);
    cost.setAttribute("aria-valuetext", missCost);
    clearTimeout(pending);
    pending = setTimeout(() => {
      $("status").textContent =
        `Precision ${texts.precision}, recall ${texts.recall}, ` +
        `${texts.rate} alerts and a cost of ${texts.expected} per 1,000 rows.`;
    }, QUIET_MS);
  }

  function goTo(threshold) {
    slider.value = String(threshold);
    show();
  }

  function choose() {
    const model = current();
    slider.max = String(model.thresholds.length - 1);
    slider.disabled = model.thresholds.length === 1;
    jumps.forEach((button, target) => {
      const reachable = model.targets[target] !== null;
      button.disabled = !reachable;
      button.title = reachable ? "" : "not reachable";
    });
    models.forEach((_, k) => {
      for (const part of ["pr-line-", "pr-band-"]) {
        $(part + k)?.classList.toggle("on", k === Number(choice.value));
      }
    });
    goTo(cheapest(model));
  }

  function goToRecall(wanted) {
    const model = current();
    let at = 0;
    model.true.forEach((right, k) => {
      const gap = Math.abs(right / model.positives - wanted);
      // Of equal recall, the higher threshold raises fewer false alarms.
      if (gap <= Math.abs(model.true[at] / model.positives - wanted)) at = k;
    });
    goTo(at);
  }

  // A table that is wider than the page is scrolled by keyboard, too.
  function markScrollable() {
    document.querySelectorAll(".scroll").forEach((box) => {
      if (box.scrollWidth > box.clientWidth) box.setAttribute("tabindex", "0");
      else box.removeAttribute("tabindex");
    });
  }

  slider.addEventListener("input", show);
  cost.addEventListener("input", () => goTo(cheapest(current())));
  choice.addEventListener("change", choose);
  jumps.forEach((button, target) =>
    button.addEventListener("click", () => goTo(current().targets[target])),
  );
  plot.addEventListener("pointerdown", (event) => {
    const box = plot.getBoundingClientRect();
    goToRecall((event.clientX - box.left) / box.width);
  });
  addEventListener("resize", markScrollable);
  addEventListener("toggle", markScrollable, true);

  choice.value = String(best);
  cost.max = String(costs.length - 1);
  // Both classes weigh the same in total to begin with.
  const odds = (models[best].rows - models[best].positives) / models[best].positives;
  const above = costs.findIndex((each) => each >= odds);
  cost.value = String(chosen ?? (above < 0 ? costs.length - 1 : above));
  $("model-field").hidden = models.length === 1;
  $("panel").hidden = false;
  $("marker").hidden = false;
  choose();
  if (start !== null) goTo(start);
  markScrollable();
})();
