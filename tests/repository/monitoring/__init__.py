"""Tests of the files for monitoring: rules, alerts, dashboard, and the page about them."""
