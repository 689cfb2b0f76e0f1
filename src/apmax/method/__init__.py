"""How it is optimised: trackers of U × directions × schedules, and the table of methods."""
