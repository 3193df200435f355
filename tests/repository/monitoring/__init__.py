"""What is shipped to watch workers with: rules, alerts, dashboard, and the page on them."""
