"""What is shipped to run Firstseen with: image, Compose, Kubernetes, audit, list of parts."""
