"""Renew the pictures of the demo's report in docs/images; needs Chromium and demo-report/."""

from __future__ import annotations

import base64
import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from selenium import webdriver

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 1200, 1605
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


def main() -> None:
    """Take a picture of the top of the page in each colour scheme."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    driver = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=driver)
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for name, scheme in (("demo", "light"), ("demo-dark", "dark")):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            browser.get((ROOT / "demo-report" / "report.html").as_uri())
            taken = browser.execute_cdp_cmd("Page.captureScreenshot", {})["data"]
            picture = Image.open(io.BytesIO(base64.b64decode(taken))).convert("RGB")
            file = ROOT / "docs" / "images" / f"{name}.png"
            picture.quantize(256, method=Image.Quantize.MAXCOVERAGE).save(file, optimize=True)
            print(file.relative_to(ROOT))
        browser.quit()


if __name__ == "__main__":
    main()
