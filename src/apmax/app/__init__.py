"""The application: tables, models, reports and the command line; needs ``apmax[app]``."""
