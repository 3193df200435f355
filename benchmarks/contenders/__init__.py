"""What is measured side by side: each module makes the work that one process does in its turns."""
