"""The script of docs/writing-an-algorithm.md writes plans that are proved, and stands there as it is."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
SCRIPT = DOCS / "examples" / "ring_plan.py"


class Script(unittest.TestCase):
    def test_its_plans_are_proved(self):
        for ranks in (1, 2, 5, 16):
            with tempfile.NamedTemporaryFile(suffix=".json") as file:
                subprocess.run([sys.executable, SCRIPT, str(ranks)], stdout=file, check=True)
                shown = subprocess.run(["rondo-plan", "print", file.name], capture_output=True, text=True)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn(f"my_ring all_gather, {ranks} rank", shown.stdout)

    def test_the_page_shows_it(self):
        page = (DOCS / "writing-an-algorithm.md").read_text()
        self.assertIn(f"```python\n{SCRIPT.read_text()}```\n", page)


if __name__ == "__main__":
    unittest.main()
